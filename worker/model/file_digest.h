// SHA-256 of a model file, remembered between starts: a file of tens of
// gigabytes takes longer to digest than to map.
#ifndef BATON_WORKER_MODEL_FILE_DIGEST_H_
#define BATON_WORKER_MODEL_FILE_DIGEST_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "kvstore/block/block_key.h"
#include "worker/graph/mapped_file.h"

namespace baton::worker {

// The digest of `file`'s bytes. If `cache_directory` is not empty, a digest
// recorded there for the same (device, inode, size, modification time) is
// returned without reading the file, and a new one is recorded; a directory
// that cannot be written costs only the time. `progress` (may be null) gets
// 0..1. Errors: kInternal (OpenSSL).
absl::StatusOr<kvstore::Digest> FileDigest(
    const MappedFile& file, const std::string& cache_directory,
    const std::function<void(double)>& progress);

}  // namespace baton::worker

#endif  // BATON_WORKER_MODEL_FILE_DIGEST_H_
