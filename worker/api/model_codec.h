// A worker's model, to the wire. Edge code.
#ifndef BATON_WORKER_API_MODEL_CODEC_H_
#define BATON_WORKER_API_MODEL_CODEC_H_

#include "baton/v1/model.pb.h"
#include "worker/handoff/worker_context.h"

namespace baton::worker {

// The context length is what this worker can hold, not what the model could.
void EncodeModel(const WorkerContext& worker, v1::ModelInfo* message);

}  // namespace baton::worker

#endif  // BATON_WORKER_API_MODEL_CODEC_H_
