// One accessor for each architecture's file. Each object lives for ever.
#ifndef BATON_WORKER_MODEL_ARCHITECTURES_ALL_H_
#define BATON_WORKER_MODEL_ARCHITECTURES_ALL_H_

#include "worker/model/architecture.h"

namespace baton::worker {

const Architecture& LlamaArchitecture();
const Architecture& Qwen2Architecture();
const Architecture& Qwen3Architecture();

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_ARCHITECTURES_ALL_H_
