// The architectures that Baton runs. A new one is a file of its own in this
// folder, an accessor here and a line in registry.cc. Each object lives for
// ever.
#ifndef BATON_WORKER_ARCHITECTURES_REGISTRY_H_
#define BATON_WORKER_ARCHITECTURES_REGISTRY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "worker/graph/architecture.h"

namespace baton::worker {

const Architecture& LlamaArchitecture();
const Architecture& Qwen2Architecture();
const Architecture& Qwen3Architecture();

// nullptr if there is none of that name.
const Architecture* FindArchitecture(absl::string_view name);
// "llama, qwen2, qwen3".
std::string ArchitectureNames();

}  // namespace baton::worker

#endif  // BATON_WORKER_ARCHITECTURES_REGISTRY_H_
