// The list of device memory. It knows nothing of who accesses it.
#include "common/machine/run/allocations.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace machine {
namespace {

constexpr size_t PAGE_BYTES = 4096;
// Behind an allocation lie as many bytes as it has, and at least a GiB, in which there is nothing: an
// index error does not meet another allocation. A process may have 65530 mappings; a gap takes one.
constexpr size_t GAP_BYTES = size_t{1} << 30;
constexpr uint32_t MAX_GAPS = 16384;
// What is freed stays reserved for a while, so that its addresses are not given out again at once.
constexpr size_t MAX_RETIRED = 1024;
// Of address space, for all gaps, and as much again for what is freed; a sixteenth of a limit.
constexpr uint64_t MAX_SPARE_BYTES = uint64_t{1} << 45;

struct Range {
  uint64_t base = 0, bytes = 0;
};

struct Heap {
  std::mutex mutex;
  std::map<uint64_t, Allocation> by_base;  // living and freed, disjoint
  std::deque<Range> retired;               // freed and still reserved, the oldest first
  uint64_t retired_bytes = 0;
  uint64_t gap_bytes = 0;
  uint32_t gaps = 0;
  uint64_t living_bytes = 0;
  std::map<std::string, Usage> usage;  // by Allocation::what
  std::atomic<uint64_t> generation{1};
};

Heap& heap() {
  static Heap* const instance = new Heap;  // never destroyed: frees come after static destructors
  return *instance;
}

size_t mapped_bytes(size_t bytes) {
  return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

// `ulimit -v` counts addresses that are only reserved: the host must find some for itself.
uint64_t spare_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return MAX_SPARE_BYTES;
  return std::min<uint64_t>(limit.rlim_cur / 16, MAX_SPARE_BYTES);
}

// As gaps use up what there is for them, they become smaller, down to a page.
size_t gap_behind(const Heap& heap, size_t bytes) {
  if (heap.gaps >= MAX_GAPS) return 0;
  const uint64_t spare = spare_bytes(), left = spare - std::min(spare, heap.gap_bytes);
  const uint64_t most = std::max<uint64_t>(left / 16 / PAGE_BYTES, 1) * PAGE_BYTES;
  return std::min<uint64_t>(std::max(GAP_BYTES, mapped_bytes(bytes)), most);
}

void count_gap(Heap& heap, uint64_t gap, bool is_there) {
  heap.gaps += gap == 0 ? 0 : is_there ? 1 : -1;
  heap.gap_bytes += is_there ? gap : -gap;
}

// Behind a change of the allocation.
void count_bytes(Heap& heap, const Allocation& allocation) {
  Usage& usage = heap.usage[allocation.what];
  const uint64_t change = allocation.freed ? -allocation.bytes : allocation.bytes;
  heap.living_bytes += change;
  usage.bytes += change;
  usage.most = std::max(usage.most, usage.bytes);
  ++heap.generation;
}

std::byte* reserve(size_t bytes, size_t gap) {
  void* const base = mmap(nullptr, mapped_bytes(bytes) + gap, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  if (mprotect(base, mapped_bytes(bytes), PROT_READ | PROT_WRITE) == 0) {
    return static_cast<std::byte*>(base);
  }
  munmap(base, mapped_bytes(bytes) + gap);
  return nullptr;
}

void unmap(Heap& heap, const Range& range) {
  munmap(reinterpret_cast<void*>(range.base), range.bytes);
  const auto freed = heap.by_base.find(range.base);
  if (freed != heap.by_base.end()) freed->second.reserved = 0;
}

void unmap_oldest(Heap& heap) {
  const Range oldest = heap.retired.front();
  heap.retired.pop_front();
  heap.retired_bytes -= oldest.bytes;
  unmap(heap, oldest);
}

// Gives the pages back, and keeps the addresses for a while.
void retire(Heap& heap, const Range& range) {
  void* const base = reinterpret_cast<void*>(range.base);
  if (mmap(base, range.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0) == MAP_FAILED) {
    return unmap(heap, range);
  }
  heap.retired.push_back(range);
  heap.retired_bytes += range.bytes;
  while (heap.retired.size() > MAX_RETIRED || heap.retired_bytes > spare_bytes()) {
    unmap_oldest(heap);
  }
}

void give_back(Heap& heap, const Allocation& allocation) {
  if (allocation.reserved == 0) return;
  count_gap(heap, allocation.reserved - mapped_bytes(allocation.bytes), false);
  retire(heap, {allocation.base, allocation.reserved});
}

// Forgets freed ranges that overlap a new one or lie in its gap.
void insert(Heap& heap, const Allocation& made) {
  const uint64_t end = made.base + std::max(made.bytes, made.reserved);
  auto next = heap.by_base.lower_bound(made.base);
  if (next != heap.by_base.begin()) {
    const auto before = std::prev(next);
    if (before->second.base + before->second.bytes > made.base) heap.by_base.erase(before);
  }
  while (next != heap.by_base.end() && next->first < end) {
    next = heap.by_base.erase(next);
  }
  heap.by_base[made.base] = made;
  count_bytes(heap, made);
}

// A file of poison: its pages are mapped again and again, and cost nothing before they are written.
constexpr size_t POISON_BYTES = 1 << 20;
int poison_file() {
  static const int file = [] {
    const int made = memfd_create("poison", MFD_CLOEXEC);
    const std::vector<uint64_t> words(POISON_BYTES / sizeof(uint64_t), POISON);
    const bool whole = made >= 0 && write(made, words.data(), POISON_BYTES) == POISON_BYTES;
    return whole ? made : -1;
  }();
  return file;
}

// Of the last 8 bytes, those behind the allocation become 0: else one byte of data could make them
// whole.
void poison(std::byte* base, size_t bytes) {
  for (size_t at = 0; at < mapped_bytes(bytes); at += POISON_BYTES) {
    const size_t part = std::min(mapped_bytes(bytes) - at, POISON_BYTES);
    if (poison_file() >= 0 &&
        mmap(base + at, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
             poison_file(), 0) != MAP_FAILED) {
      continue;
    }
    std::fill_n(reinterpret_cast<uint64_t*>(base + at), part / sizeof(uint64_t), POISON);
  }
  std::fill(base + bytes, base + (bytes + 7) / 8 * 8, std::byte{0});
}

}  // namespace

// Every allocation has pages of its own: no two share a page of the checker's shadow.
void* allocate(size_t bytes, const std::string& what, bool poisoned) {
  const size_t size = bytes == 0 ? 1 : bytes;
  const std::lock_guard lock(heap().mutex);
  size_t gap = gap_behind(heap(), size);
  std::byte* base = reserve(size, gap);
  if (base == nullptr) {
    while (!heap().retired.empty()) unmap_oldest(heap());
    base = reserve(size, gap);
  }
  while (base == nullptr && gap != 0) {
    gap = gap / 16 / PAGE_BYTES * PAGE_BYTES;
    base = reserve(size, gap);
  }
  if (base == nullptr) return nullptr;
  if (poisoned) poison(base, size);
  count_gap(heap(), gap, true);
  insert(heap(), {reinterpret_cast<uint64_t>(base), size, what, false, gap + mapped_bytes(size)});
  return base;
}

void adopt(void* base, size_t bytes, const std::string& what) {
  const std::lock_guard lock(heap().mutex);
  insert(heap(), {reinterpret_cast<uint64_t>(base), bytes, what, false});
}

bool release(void* base) {
  const std::lock_guard lock(heap().mutex);
  const auto found = heap().by_base.find(reinterpret_cast<uint64_t>(base));
  if (found == heap().by_base.end() || found->second.freed) return false;
  Allocation& allocation = found->second;
  allocation.freed = true;
  count_bytes(heap(), allocation);
  if (!allocation.kept) give_back(heap(), allocation);
  return true;
}

void keep(void* base, bool kept) {
  const std::lock_guard lock(heap().mutex);
  Allocation& allocation = heap().by_base.at(reinterpret_cast<uint64_t>(base));
  allocation.kept = kept;
  if (!kept && allocation.freed) give_back(heap(), allocation);
}

bool revive(void* base, bool poisoned) {
  const std::lock_guard lock(heap().mutex);
  Allocation& allocation = heap().by_base.at(reinterpret_cast<uint64_t>(base));
  if (!allocation.freed) return false;
  if (poisoned) poison(static_cast<std::byte*>(base), allocation.bytes);
  allocation.freed = false;
  count_bytes(heap(), allocation);
  return true;
}

bool find_allocation(uint64_t address, Allocation* found) {
  const std::lock_guard lock(heap().mutex);
  auto next = heap().by_base.upper_bound(address);
  if (next == heap().by_base.begin()) return false;
  const Allocation& allocation = std::prev(next)->second;
  if (!allocation.contains(address, 1)) return false;
  *found = allocation;
  return true;
}

bool nearest_allocation(uint64_t address, Allocation* found) {
  const std::lock_guard lock(heap().mutex);
  uint64_t best = UINT64_MAX;
  for (const auto& [base, allocation] : heap().by_base) {
    if (allocation.freed) continue;
    const uint64_t end = base + allocation.bytes;
    const uint64_t distance = address < base ? base - address : address >= end ? address - end : 0;
    if (distance < best) {
      best = distance;
      *found = allocation;
    }
  }
  return best != UINT64_MAX;
}

uint64_t allocation_generation() {
  return heap().generation.load(std::memory_order_relaxed);
}

uint64_t allocated_bytes() {
  const std::lock_guard lock(heap().mutex);
  return heap().living_bytes;
}

Usage usage_of(const std::string& what) {
  const std::lock_guard lock(heap().mutex);
  return heap().usage[what];
}

void forget_most(const std::string& what) {
  const std::lock_guard lock(heap().mutex);
  heap().usage[what].most = heap().usage[what].bytes;
}

}  // namespace machine
