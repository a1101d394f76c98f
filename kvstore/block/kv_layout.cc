#include "kvstore/block/kv_layout.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::kvstore {
namespace {

void AppendFramed(std::string* out, absl::string_view part) {
  absl::StrAppend(out, part.size(), ":", part, ";");
}

std::string GroupText(const KvGroup& group) {
  std::string text;
  AppendFramed(&text, group.name);
  AppendFramed(&text, group.kind);
  AppendFramed(&text, group.dtype);
  absl::StrAppend(&text, group.layers, ",", group.kv_heads, ",", group.head_dim,
                  ",", group.block_bytes);
  return text;
}

// A worker without speculation may serve one with it.
bool IsDraftGroup(const std::string& name) {
  return name == "mtp" || name == "tail";
}

const KvGroup* FindGroup(const KvLayout& layout, const std::string& name) {
  auto it =
      std::find_if(layout.groups.begin(), layout.groups.end(),
                   [&](const KvGroup& group) { return group.name == name; });
  return it == layout.groups.end() ? nullptr : &*it;
}

absl::Status Differs(absl::string_view field, absl::string_view mine,
                     absl::string_view theirs) {
  return absl::FailedPreconditionError(
      absl::StrCat("cache layouts differ in ", field, ": ", mine, " here, ",
                   theirs, " there"));
}

}  // namespace

Digest KvLayout::Fingerprint() const {
  std::string text;
  AppendFramed(&text, absl::StrCat("baton-layout-", kVersion));
  AppendFramed(&text, model_digest.Raw());
  AppendFramed(&text, architecture);
  AppendFramed(&text, parameters);
  AppendFramed(&text, numerics_mode);
  AppendFramed(&text, numerics_id);
  AppendFramed(&text, absl::StrCat(block_tokens));
  for (const KvGroup& group : groups) {
    // Draft groups have a key space of their own.
    if (!IsDraftGroup(group.name)) AppendFramed(&text, GroupText(group));
  }
  return Sha256(text);
}

Digest KvLayout::DraftFingerprint() const {
  std::string text;
  AppendFramed(&text, absl::StrCat("baton-draft-layout-", kVersion));
  AppendFramed(&text, draft_digest.Raw());
  for (const KvGroup& group : groups) {
    if (IsDraftGroup(group.name)) AppendFramed(&text, GroupText(group));
  }
  return Sha256(text);
}

uint64_t KvLayout::TargetBytes() const {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups) {
    if (!IsDraftGroup(group.name)) bytes += group.block_bytes;
  }
  return bytes;
}

uint64_t KvLayout::DraftBytes() const {
  uint64_t bytes = 0;
  for (const KvGroup& group : groups) {
    if (IsDraftGroup(group.name)) bytes += group.block_bytes;
  }
  return bytes;
}

absl::Status CheckCompatible(const KvLayout& mine, const KvLayout& theirs) {
  if (mine.model_digest != theirs.model_digest) {
    return Differs("model digest", mine.model_digest.Hex(),
                   theirs.model_digest.Hex());
  }
  if (mine.architecture != theirs.architecture) {
    return Differs("architecture", mine.architecture, theirs.architecture);
  }
  if (mine.parameters != theirs.parameters) {
    return Differs("parameters", mine.parameters, theirs.parameters);
  }
  if (mine.numerics_mode != theirs.numerics_mode) {
    return Differs("numerics mode", mine.numerics_mode, theirs.numerics_mode);
  }
  if (mine.numerics_id != theirs.numerics_id) {
    return Differs("numerics id", mine.numerics_id, theirs.numerics_id);
  }
  if (mine.block_tokens != theirs.block_tokens) {
    return Differs("block tokens", absl::StrCat(mine.block_tokens),
                   absl::StrCat(theirs.block_tokens));
  }
  for (const KvGroup& group : mine.groups) {
    if (IsDraftGroup(group.name)) continue;
    const KvGroup* other = FindGroup(theirs, group.name);
    if (other == nullptr) {
      return Differs(absl::StrCat("group ", group.name), "present", "absent");
    }
    if (*other != group) {
      return Differs(absl::StrCat("group ", group.name), GroupText(group),
                     GroupText(*other));
    }
  }
  for (const KvGroup& group : theirs.groups) {
    if (FindGroup(mine, group.name) == nullptr && !IsDraftGroup(group.name)) {
      return Differs(absl::StrCat("group ", group.name), "absent", "present");
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::kvstore
