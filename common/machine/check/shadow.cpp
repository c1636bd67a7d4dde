// The planes of a CTA's shared memory, which each launch makes and gives back.
#include "common/machine/check/shadow.h"

#include <algorithm>
#include <mutex>

namespace machine {
namespace {

// Reads of planes that are no more, all 0, kept from launch to launch: the system clears what it gives.
struct Spare {
  std::mutex mutex;
  std::vector<std::vector<uint64_t>> reads;
};
Spare& spare() {
  static Spare& planes = *new Spare;  // for those, too, who still run when the process ends
  return planes;
}

}  // namespace

Plane::Plane(size_t cells) : newest((cells + BLOCK_CELLS - 1) / BLOCK_CELLS) {
  {
    const std::lock_guard lock(spare().mutex);
    if (!spare().reads.empty()) {
      reads = std::move(spare().reads.back());
      spare().reads.pop_back();
    }
  }
  reads.resize(cells);
}

Plane::~Plane() {
  for (size_t block = 0; block < newest.size(); ++block) {
    const size_t first = block * BLOCK_CELLS, count = reads.size() - first;
    if (newest[block] != 0) std::fill_n(&reads[first], std::min<size_t>(count, BLOCK_CELLS), 0);
  }
  const std::lock_guard lock(spare().mutex);
  spare().reads.push_back(std::move(reads));
}

}  // namespace machine
