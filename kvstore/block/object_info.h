// A stored object as its readers and writers name it. A value.
#ifndef BATON_KVSTORE_BLOCK_OBJECT_INFO_H_
#define BATON_KVSTORE_BLOCK_OBJECT_INFO_H_

#include <cstdint>

#include "kvstore/block/block_key.h"
#include "services/base/ids.h"

namespace baton::kvstore {

struct ObjectInfo {
  BlockKey key;
  // Differs from that of all earlier objects of this key.
  Generation generation;
  uint64_t payload_bytes = 0;
  uint32_t crc32c = 0;  // of the whole payload
  bool operator==(const ObjectInfo&) const = default;
};

}  // namespace baton::kvstore

#endif  // BATON_KVSTORE_BLOCK_OBJECT_INFO_H_
