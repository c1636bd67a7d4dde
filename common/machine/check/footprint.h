// Which bytes of global memory work has accessed, a grid or a copy: for what may run beside it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace machine {

class Footprint {
 public:
  static constexpr uint32_t PAGE_SHIFT = 12, CELL_SHIFT = 3;
  static constexpr uint32_t CELLS = 1 << (PAGE_SHIFT - CELL_SHIFT);  // of a page
  using Bytes = std::array<uint8_t, CELLS>;                          // by cell, a bit a byte

  struct Page {
    Bytes written{}, read{};
    std::bitset<CELLS> strong;  // by atomic, relaxed or volatile accesses
  };
  struct Range {
    uint64_t begin, end;
    bool is_write;
  };
  struct Conflict {
    uint64_t address;
    bool is_write, with_write;
  };

  // In order of their numbers. A page that is accessed whole becomes part of a range, which takes
  // less room, unless there are many.
  void add_page(uint64_t number, const Page& page) {
    const auto is_all = [](const Bytes& bytes, uint8_t value) {
      return std::all_of(bytes.begin(), bytes.end(), [=](uint8_t cell) { return cell == value; });
    };
    const bool reads = !is_all(page.read, 0), writes = !is_all(page.written, 0);
    const bool whole =
        (!reads || is_all(page.read, 0xff)) && (!writes || is_all(page.written, 0xff));
    if (page.strong.any() || !whole || ranges_.size() + 2 > MOST_RANGES) {
      return add(pages_[number], page);
    }
    if (reads) extend(number, false);
    if (writes) extend(number, true);
  }
  void add(const Range& range) { ranges_.push_back(range); }
  void add(const Footprint& other) {
    for (const auto& [number, from] : other.pages_) add(pages_[number], from);
    ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  }
  bool empty() const { return pages_.empty() && ranges_.empty(); }

  // Where an access conflicts with one of these, if it does.
  std::optional<Conflict> conflict(const Range& range) const {
    for (const Range& with : ranges_) {
      const uint64_t begin = std::max(range.begin, with.begin);
      if (begin < std::min(range.end, with.end) && (range.is_write || with.is_write))
        return Conflict{begin, range.is_write, with.is_write};
    }
    for (uint64_t at = range.begin; at < range.end;) {
      const auto found = pages_.find(at >> PAGE_SHIFT);
      const uint64_t next = std::min(range.end, ((at >> PAGE_SHIFT) + 1) << PAGE_SHIFT);
      for (; found != pages_.end() && at < next; at = (at | 7) + 1) {
        const uint32_t cell = at >> CELL_SHIFT & (CELLS - 1);
        const auto mask =
            static_cast<uint8_t>(0xff << (at & 7) & 0xff >> (7 - (std::min(at | 7, next - 1) & 7)));
        const Page& page = found->second;
        const uint8_t written = page.written[cell] & mask, read = page.read[cell] & mask;
        if (written == 0 && (read == 0 || !range.is_write)) continue;
        return Conflict{(at & ~7ull) + std::countr_zero(written != 0 ? written : read),
                        range.is_write, written != 0};
      }
      at = next;
    }
    return {};
  }

  // The same of all its accesses. None conflict where both make atomic, relaxed or volatile ones to
  // one place, by which they may have synchronised.
  std::optional<Conflict> conflict(const Footprint& other) const {
    std::optional<Conflict> found;
    for (const auto& [number, with] : pages_) {
      const auto theirs = other.pages_.find(number);
      if (theirs == other.pages_.end()) continue;
      const Page& page = theirs->second;
      if ((page.strong & with.strong).any()) return {};
      for (uint32_t i = 0; i < CELLS && !found; ++i) {
        const uint8_t written = page.written[i] & (with.written[i] | with.read[i]);
        const uint8_t bytes = written | (page.read[i] & with.written[i]);
        if (bytes == 0) continue;
        const int byte = std::countr_zero(bytes);
        found = Conflict{(number << PAGE_SHIFT) + (i << CELL_SHIFT) + byte,
                         (written >> byte & 1) != 0, (with.written[i] >> byte & 1) != 0};
      }
    }
    for (size_t i = 0; i < other.ranges_.size() && !found; ++i) found = conflict(other.ranges_[i]);
    for (size_t i = 0; i < ranges_.size() && !found; ++i) {
      found = other.conflict(ranges_[i]);
      if (found) std::swap(found->is_write, found->with_write);
    }
    return found;
  }

 private:
  static constexpr size_t MOST_RANGES = 256;

  static void add(Page& into, const Page& from) {
    for (uint32_t i = 0; i < CELLS; ++i) {
      into.written[i] |= from.written[i];
      into.read[i] |= from.read[i];
    }
    into.strong |= from.strong;
  }
  void extend(uint64_t page_number, bool is_write) {
    const uint64_t begin = page_number << PAGE_SHIFT, end = begin + (1 << PAGE_SHIFT);
    for (size_t i = ranges_.size(), first = i < 2 ? 0 : i - 2; i-- > first;) {
      if (ranges_[i].is_write != is_write || ranges_[i].end != begin) continue;
      ranges_[i].end = end;
      return;
    }
    ranges_.push_back({begin, end, is_write});
  }

  std::unordered_map<uint64_t, Page> pages_;  // by number
  std::vector<Range> ranges_;
};

}  // namespace machine
