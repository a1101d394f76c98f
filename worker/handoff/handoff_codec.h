// Manifests and cache layouts, to and from the wire. Everything a peer sent is
// checked for form here; whether it fits this worker is the importer's
// decision. Edge code.
#ifndef BATON_WORKER_HANDOFF_HANDOFF_CODEC_H_
#define BATON_WORKER_HANDOFF_HANDOFF_CODEC_H_

#include "absl/status/statusor.h"
#include "baton/v1/handoff.pb.h"
#include "baton/v1/types.pb.h"
#include "kvstore/block/kv_layout.h"
#include "worker/handoff/handoff_manifest.h"

namespace baton::worker {

void EncodeLayout(const kvstore::KvLayout& layout, v1::KvLayout* message);

// InvalidArgument for a digest that has not 32 bytes or a fingerprint that is
// not that of the other fields; FailedPrecondition for another version.
absl::StatusOr<kvstore::KvLayout> DecodeLayout(const v1::KvLayout& message);

void EncodeManifest(const HandoffManifest& manifest,
                    v1::HandoffManifest* message);

// InvalidArgument for a malformed key or token id, or more blocks than
// `max_blocks`; and as DecodeLayout.
absl::StatusOr<HandoffManifest> DecodeManifest(
    const v1::HandoffManifest& message, size_t max_blocks);

}  // namespace baton::worker

#endif  // BATON_WORKER_HANDOFF_HANDOFF_CODEC_H_
