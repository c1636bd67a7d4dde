// What grids have accessed that a dependent launch may run beside.
#pragma once

#include <bitset>
#include <cstdint>
#include <unordered_map>

namespace machine {

class GridsBefore {
 public:
  static constexpr uint32_t PAGE_SHIFT = 12, CELL_SHIFT = 3;
  static constexpr uint32_t CELLS = 1 << (PAGE_SHIFT - CELL_SHIFT);  // of a page

  struct Page {
    std::bitset<CELLS> written, read;
  };
  Page& page(uint64_t number) { return pages_[number]; }

  // Whether an access conflicts with one of theirs.
  bool conflicts(uint64_t address, uint64_t bytes, bool is_write) const {
    const uint64_t end = (address + bytes - 1) >> CELL_SHIFT;
    for (uint64_t cell = address >> CELL_SHIFT; cell <= end; ++cell) {
      const auto found = pages_.find(cell / CELLS);
      if (found == pages_.end()) continue;
      const Page& page = found->second;
      if (page.written[cell % CELLS] || (is_write && page.read[cell % CELLS])) return true;
    }
    return false;
  }

 private:
  std::unordered_map<uint64_t, Page> pages_;  // by number
};

}  // namespace machine
