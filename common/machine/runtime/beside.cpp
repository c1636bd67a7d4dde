// Work that nothing orders: what is said of two pieces that access the same memory.
#include "common/machine/runtime/beside.h"

#include "common/machine/check/reports.h"
#include "common/machine/run/state.h"

namespace machine::runtime {
namespace {

bool is_default(const Piece& piece) {
  return piece.stream == DEFAULT_STREAM;
}

const char* verb(const Piece& piece, bool is_write) {
  if (piece.what == "cudaMallocAsync") return "allocates";
  if (piece.what == "cudaFreeAsync") return "frees";
  return is_write ? "writes" : "reads";
}

std::string text_of(const Piece& piece) {
  return piece.what + (piece.node != 0 ? joined(", node ", piece.node, " of a graph,") : "") +
         " in " + piece.stream;
}

std::string remedy(const Piece& earlier, const Piece& later) {
  if (earlier.stream == later.stream) {
    return "an edge of the graph from the one node to the other; in a capture, cudaEventRecord in "
           "the stream of the earlier one behind it, and cudaStreamWaitEvent in that of the later "
           "one before it.";
  }
  return "cudaEventRecord in " + earlier.stream + " behind " + earlier.what +
         ", and cudaStreamWaitEvent in " + later.stream + " before " + later.what +
         "; or a wait of the host between the two." +
         (is_default(earlier) || is_default(later)
              ? " A stream of cudaStreamNonBlocking does not wait for the default stream, nor that "
                "one for it."
              : "");
}

}  // namespace

Piece*& piece_under_way() {
  static thread_local Piece* piece = nullptr;
  return piece;
}

void note_access(const char* call, const void* begin, size_t bytes, bool is_write) {
  Piece* const piece = piece_under_way();
  if (piece == nullptr || bytes == 0) return;
  const auto address = reinterpret_cast<uint64_t>(begin);
  piece->what = call;
  piece->accesses.add({address, address + bytes, is_write});
}

void PiecesBeside::check(const Piece& piece, Pieces known) const {
  for (Pieces rest = there_ & ~known; rest != 0; rest &= rest - 1) {
    const Piece& earlier = pieces_[static_cast<size_t>(std::countr_zero(rest))];
    const auto conflict = earlier.accesses.conflict(piece.accesses);
    if (!conflict) continue;
    report_once(earlier.what + ", " + piece.what, rule::STREAM_RACE, 0, 0, [&] {
      Origin origin;
      if (piece.what.starts_with(KERNEL)) origin.kernel = piece.what.substr(KERNEL.size());
      return Error(Error::Kind::race,
                   joined("Race in ", piece.what, ": it ", verb(piece, conflict->is_write), " ",
                          name_of_global(conflict->address), ", which ", earlier.what, " ",
                          verb(earlier, conflict->with_write),
                          ", and nothing orders the two.\n  earlier: ", text_of(earlier),
                          "\n  later:   ", text_of(piece),
                          "\n  What would order them: ", remedy(earlier, piece),
                          "\n  Rule: ", rule::STREAM_RACE.name, " (the values can differ)"),
                   rule::STREAM_RACE, origin);
    });
  }
}

}  // namespace machine::runtime
