// AMX's int8 tiles in portable code, for the kernels' sources (see
// worker/kernels/amx_intrinsics.h): registers of a thread, and the instructions
// that we use, with the faults that a processor would raise as aborts.
#ifndef BATON_TESTS_SUPPORT_EMULATED_AMX_H_
#define BATON_TESTS_SUPPORT_EMULATED_AMX_H_

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace baton::emulated {

struct Tile {
  uint8_t rows = 0;
  uint16_t row_bytes = 0;
  uint8_t data[16][64];
};

struct TileUnit {
  bool configured = false;
  Tile tiles[8];
};
inline TileUnit& Unit() {
  static thread_local TileUnit unit;
  return unit;
}

inline void Require(bool fulfilled) {
  if (!fulfilled) abort();
}

inline Tile& Register(int number) {
  Require(Unit().configured && number >= 0 && number < 8);
  Tile& tile = Unit().tiles[number];
  Require(tile.rows > 0 && tile.row_bytes > 0);
  return tile;
}

// 64 bytes: palette, start row, 14 reserved, 16 row lengths, 16 numbers of
// rows.
inline void LoadTileConfig(const void* from) {
  const uint8_t* bytes = static_cast<const uint8_t*>(from);
  Require(bytes[0] == 1 && bytes[1] == 0);
  for (int i = 2; i < 16; ++i) Require(bytes[i] == 0);
  for (int i = 0; i < 16; ++i) {
    uint16_t row_bytes;
    memcpy(&row_bytes, bytes + 16 + 2 * i, sizeof(row_bytes));
    const uint8_t rows = bytes[48 + i];
    Require(row_bytes <= 64 && rows <= 16 && (row_bytes == 0) == (rows == 0));
    if (i >= 8) {
      Require(rows == 0);
      continue;
    }
    Unit().tiles[i].rows = rows;
    Unit().tiles[i].row_bytes = row_bytes;
    memset(Unit().tiles[i].data, 0, sizeof(Unit().tiles[i].data));
  }
  Unit().configured = true;
}
inline void ReleaseTiles() { Unit().configured = false; }

inline void ZeroTile(int number) {
  memset(Register(number).data, 0, sizeof(Tile::data));
}
inline void LoadTile(int number, const void* from, size_t stride) {
  Tile& tile = Register(number);
  memset(tile.data, 0, sizeof(tile.data));
  for (size_t row = 0; row < tile.rows; ++row) {
    memcpy(tile.data[row], static_cast<const uint8_t*>(from) + row * stride,
           tile.row_bytes);
  }
}
inline void StoreTile(int number, void* to, size_t stride) {
  const Tile& tile = Register(number);
  for (size_t row = 0; row < tile.rows; ++row) {
    memcpy(static_cast<uint8_t*>(to) + row * stride, tile.data[row],
           tile.row_bytes);
  }
}

// sums[m][n] += sum over k of a[m][k] * b[k / 4][4 * n + k % 4]; b holds bytes
// of type B.
template <typename B>
void MultiplyTiles(int sums, int a, int b) {
  Tile& c = Register(sums);
  const Tile &x = Register(a), &y = Register(b);
  Require(sums != a && sums != b && a != b);
  Require(x.rows == c.rows && y.row_bytes == c.row_bytes);
  Require(x.row_bytes % 4 == 0 && x.row_bytes / 4 == y.rows);
  for (size_t m = 0; m < c.rows; ++m) {
    for (size_t n = 0; n < c.row_bytes / 4u; ++n) {
      int32_t sum;
      memcpy(&sum, &c.data[m][4 * n], sizeof(sum));
      for (size_t k = 0; k < x.row_bytes; ++k) {
        sum += static_cast<int8_t>(x.data[m][k]) *
               static_cast<B>(y.data[k / 4][4 * n + k % 4]);
      }
      memcpy(&c.data[m][4 * n], &sum, sizeof(sum));
    }
  }
}

}  // namespace baton::emulated

#define _tile_loadconfig(from) ::baton::emulated::LoadTileConfig(from)
#define _tile_release() ::baton::emulated::ReleaseTiles()
#define _tile_zero(tile) ::baton::emulated::ZeroTile(tile)
#define _tile_loadd(tile, from, stride) \
  ::baton::emulated::LoadTile(tile, from, stride)
#define _tile_stored(tile, to, stride) \
  ::baton::emulated::StoreTile(tile, to, stride)
#define _tile_dpbssd(sums, a, b) \
  ::baton::emulated::MultiplyTiles<int8_t>(sums, a, b)
#define _tile_dpbsud(sums, a, b) \
  ::baton::emulated::MultiplyTiles<uint8_t>(sums, a, b)

#endif  // BATON_TESTS_SUPPORT_EMULATED_AMX_H_
