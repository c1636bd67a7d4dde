// What may run at the same time: pieces of work in streams and graphs that nothing orders.
#pragma once

#include <string>
#include <string_view>

#include "common/machine/check/footprint.h"
#include "common/machine/runtime/stream.h"

namespace machine::runtime {

constexpr char DEFAULT_STREAM[] = "the default stream";
constexpr std::string_view KERNEL = "kernel ";

struct Piece {
  std::string what;    // "kernel fill", "cudaMemcpyAsync"
  std::string stream;  // "stream 3"
  size_t node = 0;     // of a graph, from 1 on
  Footprint accesses;
};

// Of this thread: the piece that it is working on, or null if nothing can be beside it. Work adds
// what it accesses.
Piece*& piece_under_way();
// Of a copy, a fill, an allocation: nothing for 0 bytes.
void note_access(const char* call, const void* begin, size_t bytes, bool is_write);

// The pieces that have not been waited for. Its owner locks.
class PiecesBeside {
 public:
  static constexpr int MOST = 64;  // the oldest is forgotten

  // Reports a conflict of the piece with one that it does not know to be over. Returns its bit,
  // which may have been another's: `forget` is called with that first.
  template <class Forget>
  Pieces add(Piece piece, Pieces known, Forget&& forget) {
    const int place = next_++ % MOST;
    const Pieces bit = Pieces{1} << place;
    forget(bit);
    check(piece, known & ~bit);
    pieces_[static_cast<size_t>(place)] = std::move(piece);
    there_ |= bit;
    return bit;
  }
  void forget(Pieces gone) { there_ &= ~gone; }

 private:
  void check(const Piece& piece, Pieces known) const;

  std::array<Piece, MOST> pieces_;
  Pieces there_ = 0;
  int next_ = 0;
};

}  // namespace machine::runtime
