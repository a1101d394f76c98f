#include "services/cli/model_check.h"

#include "absl/strings/str_cat.h"
#include "services/base/status_macros.h"
#include "services/text/tokenizer.h"
#include "worker/architectures/registry.h"
#include "worker/graph/weights.h"

namespace baton::cli {

absl::Status CheckModelHeader(const gguf::GgufHeader& header) {
  BATON_ASSIGN_OR_RETURN(const std::string name,
                         header.String("general.architecture"));
  const worker::Architecture* architecture = worker::FindArchitecture(name);
  if (architecture == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("architecture ", name, " is not supported (",
                     worker::ArchitectureNames(), " are)"));
  }
  if (header.tensors().empty()) {
    return absl::InvalidArgumentError("the file holds no tensors");
  }
  BATON_ASSIGN_OR_RETURN(const worker::Hyperparameters parameters,
                         architecture->ReadHyperparameters(header));
  BATON_RETURN_IF_ERROR(
      worker::CheckTensors(header, architecture->FileTensors(parameters)));
  return text::Tokenizer::Create(header).status();
}

absl::Status CheckModelFile(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const std::unique_ptr<gguf::GgufHeader> header,
                         gguf::GgufHeader::FromFile(path));
  const absl::Status usable = CheckModelHeader(*header);
  if (usable.ok()) return usable;
  return absl::Status(usable.code(),
                      absl::StrCat(path, ": ", usable.message()));
}

}  // namespace baton::cli
