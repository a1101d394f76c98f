// Whether a worker will take a model file, told without starting one.
#ifndef BATON_SERVICES_CLI_MODEL_CHECK_H_
#define BATON_SERVICES_CLI_MODEL_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "services/gguf/gguf_header.h"

namespace baton::cli {

// What a worker checks before it reads the weights: architecture, its
// parameters, the tensors, the tokenizer. Errors say which.
absl::Status CheckModelHeader(const gguf::GgufHeader& header);

// The same of a file, with those of gguf::GgufHeader::FromFile; every message
// starts with the path.
absl::Status CheckModelFile(const std::string& path);

}  // namespace baton::cli

#endif  // BATON_SERVICES_CLI_MODEL_CHECK_H_
