// Keeps the arrays of a CTA's shadow for the next CTA.
#include <algorithm>
#include <utility>

#include "common/machine/check/shadow.h"

namespace machine {
namespace {

struct Spare {
  static constexpr size_t MOST = 16;  // some 5 MB each, of a CTA that uses all shared memory

  std::mutex mutex;
  std::vector<Shadow> shadows;
};

Spare& spare() {
  static Spare* const instance = new Spare;  // never destroyed: programs launch from destructors
  return *instance;
}

}  // namespace

// What has not been read since the last time is still empty.
void Shadow::clear() {
  std::fill(cells.begin(), cells.end(), Cell());
  std::fill(uniform.begin(), uniform.end(), 0);
  for (const auto& plane : planes) {
    for (size_t block = 0; block < plane->newest.size(); ++block) {
      if (std::exchange(plane->newest[block], 0) == 0) continue;
      const size_t first = block * Plane::BLOCK_CELLS;
      const size_t end = std::min(first + Plane::BLOCK_CELLS, plane->reads.size());
      std::fill(plane->reads.data() + first, plane->reads.data() + end, 0);
    }
  }
  visits.clear();
  early.clear();
  at_exit.clear();
}

Shadow Shadow::take(Cta& cta) {
  const size_t count = (cta.smem_bytes + CELL_BYTES - 1) / CELL_BYTES;
  Shadow shadow;
  {
    const std::lock_guard lock(spare().mutex);
    std::vector<Shadow>& all = spare().shadows;
    if (!all.empty()) {
      shadow = std::move(all.back());
      all.pop_back();
    }
  }
  if (shadow.cells.size() == count) {
    shadow.clear();
  } else {
    shadow = Shadow();
    shadow.cells.resize(count);
    shadow.uniform.resize(count / Plane::BLOCK_CELLS + 1);
  }
  shadow.cta = &cta;
  return shadow;
}

void Shadow::give_back(Shadow&& shadow) {
  const std::lock_guard lock(spare().mutex);
  if (spare().shadows.size() < Spare::MOST) spare().shadows.push_back(std::move(shadow));
}

}  // namespace machine
