#include "worker/architectures/registry.h"

#include "absl/strings/str_cat.h"

namespace baton::worker {
namespace {

using Accessor = const Architecture& (*)();
constexpr Accessor kArchitectures[] = {
    LlamaArchitecture,
    Qwen2Architecture,
    Qwen3Architecture,
};

}  // namespace

const Architecture* FindArchitecture(absl::string_view name) {
  for (const Accessor accessor : kArchitectures) {
    if (accessor().name() == name) return &accessor();
  }
  return nullptr;
}

std::string ArchitectureNames() {
  std::string names;
  for (const Accessor accessor : kArchitectures) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", accessor().name());
  }
  return names;
}

}  // namespace baton::worker
