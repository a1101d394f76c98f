#include <gtest/gtest.h>

#include <vector>

#include "services/base/crc32c.h"

namespace baton {
namespace {

std::vector<std::byte> Filled(size_t size, uint8_t first, int step) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(first + static_cast<int>(i) * step);
  }
  return bytes;
}

// RFC 3720, appendix B.4.
TEST(Crc32cTest, GivesTheValuesOfRfc3720) {
  EXPECT_EQ(Crc32c(Filled(32, 0x00, 0)), 0x8a9136aau);
  EXPECT_EQ(Crc32c(Filled(32, 0xff, 0)), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(Filled(32, 0x00, 1)), 0x46dd794eu);
  EXPECT_EQ(Crc32c(Filled(32, 0x1f, -1)), 0x113fdb5cu);
  std::vector<std::byte> read_command(48);
  read_command[0] = std::byte{0x01};
  read_command[1] = std::byte{0xc0};
  read_command[16] = std::byte{0x14};
  read_command[22] = std::byte{0x04};
  read_command[27] = std::byte{0x14};
  read_command[31] = std::byte{0x18};
  read_command[32] = std::byte{0x28};
  read_command[40] = std::byte{0x02};
  EXPECT_EQ(Crc32c(read_command), 0xd9963a56u);
}

TEST(Crc32cTest, NothingHasTheValueZero) { EXPECT_EQ(Crc32c({}), 0u); }

TEST(Crc32cTest, TheVectorFormEqualsTheTableAtEveryLengthAndOffset) {
  const std::vector<std::byte> bytes = Filled(100, 7, 37);
  const std::span<const std::byte> all(bytes);
  for (size_t offset = 0; offset < 9; ++offset) {
    for (size_t size = 0; offset + size <= bytes.size(); ++size) {
      const auto part = all.subspan(offset, size);
      EXPECT_EQ(ExtendCrc32c(5, part), ExtendCrc32cByTable(5, part))
          << "offset " << offset << ", size " << size;
    }
  }
}

TEST(Crc32cTest, PartsGiveTheValueOfTheWhole) {
  const std::vector<std::byte> bytes = Filled(61, 3, 11);
  const std::span<const std::byte> all(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(all.first(cut)), all.subspan(cut)),
              Crc32c(all));
  }
}

}  // namespace
}  // namespace baton
