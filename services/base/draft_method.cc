#include "services/base/draft_method.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton {

absl::string_view DraftMethodName(DraftMethod method) {
  switch (method) {
    case DraftMethod::kNgram:
      return "ngram";
    case DraftMethod::kMtp:
      return "mtp";
  }
  return "";
}

absl::StatusOr<DraftMethods> DraftMethods::Parse(absl::string_view names) {
  DraftMethods methods;
  if (names == "none") return methods;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const auto* method = std::find_if(
        std::begin(kDraftMethods), std::end(kDraftMethods),
        [&](DraftMethod known) { return DraftMethodName(known) == name; });
    if (method == std::end(kDraftMethods)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" is none of none, ", All().Names()));
    }
    methods.Add(*method);
  }
  return methods;
}

std::string DraftMethods::Names() const {
  std::string names;
  for (const DraftMethod method : kDraftMethods) {
    if (!Has(method)) continue;
    absl::StrAppend(&names, names.empty() ? "" : ",", DraftMethodName(method));
  }
  return names.empty() ? "none" : names;
}

}  // namespace baton
