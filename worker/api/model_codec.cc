#include "worker/api/model_codec.h"

namespace baton::worker {

void EncodeModel(const WorkerContext& worker, v1::ModelInfo* message) {
  const ModelDescription& model = *worker.model;
  message->set_name(model.name);
  message->set_architecture(model.architecture);
  message->set_context_length(worker.context_length);
  message->set_vocabulary_size(model.vocabulary);
  for (TokenId token : model.end_tokens) message->add_eos_token_ids(token);
  message->set_model_digest(model.digest.Raw());
  message->set_header_digest(model.header_digest.Raw());
  message->set_parameters(model.parameters);
  message->set_file_bytes(model.file_bytes);
  message->set_file_type(model.file_type);
}

}  // namespace baton::worker
