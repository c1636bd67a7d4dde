#include <atomic>

#include "common/machine/check/shadow.h"

namespace machine {
namespace {

constexpr uint32_t PAGE_SHIFT = 12, LEVEL_BITS = 12;
constexpr uint64_t PAGE_BYTES = 1ull << PAGE_SHIFT;

bool same_moment(const GlobalRecord& a, const GlobalRecord& b) {
  return a.cluster == b.cluster && a.agent == b.agent && a.clock == b.clock && a.strong == b.strong;
}

void put(GlobalRecord& into, const GlobalRecord& record) {
  if (!same_moment(into, record)) {
    into = record;
    return;
  }
  const uint32_t changed = lanes_of(record.bytes);
  into.lanes = static_cast<uint16_t>((into.lanes & ~changed) | (record.lanes & changed));
  into.bytes |= record.bytes;
  into.pc = record.pc;
}

// Accesses by different lanes of a warp, by different instructions, since the lanes last met.
bool is_other_lane(const GlobalAccess& access, const GlobalRecord& before, uint32_t bytes) {
  if (before.clock <= access.lanes_met_at || before.pc == access.as.pc || before.strong ||
      access.as.strong || before.narrow || access.as.narrow || before.agent != access.as.agent ||
      before.cluster != access.as.cluster) {
    return false;
  }
  return ((before.lanes ^ access.as.lanes) & lanes_of(bytes)) != 0;
}

bool conflicts(const GlobalAccess& access, const GlobalRecord& before) {
  const uint32_t bytes = before.bytes & access.as.bytes;
  if (before.clock == 0 || bytes == 0 || (before.strong && access.as.strong)) return false;
  if (is_other_lane(access, before, bytes)) return true;
  const Knowledge* known = access.known;
  if (before.cluster != access.as.cluster) {
    if (!known->others) return true;
    const auto found = known->others->find(before.cluster);
    if (found == known->others->end()) return true;
    known = found->second.get();
  }
  const View view =
      access.async_proxy && in_generic_proxy(before.agent, access.warps) ? ASYNC_GLOBAL : GENERIC;
  return !is_ordered(*known, view, before.record(), bytes, access.warps);
}

}  // namespace

// What was written in this launch, page by page; reads are kept for such pages only.
struct GlobalShadow::Page {
  struct Cell {
    GlobalRecord write, read;
  };
  std::mutex mutex;
  std::array<Cell, PAGE_BYTES / CELL_BYTES> cells;
};

// Three levels of tables, the last one of pages; entries are added, never changed.
struct GlobalShadow::Table {
  std::array<std::atomic<void*>, 1 << LEVEL_BITS> next{};
};

// Walks over memory; holds the lock of the page that it is on.
class GlobalShadow::Cursor {
 public:
  Cursor(GlobalShadow& shadow, GlobalAccess& access) : shadow_(shadow), access_(access) {}
  ~Cursor() { leave(); }

  std::optional<Conflict> step(uint64_t address, uint64_t bytes) {
    for (const uint64_t end = address + bytes; address < end;) {
      if (address >> PAGE_SHIFT != number_) {
        leave();
        number_ = address >> PAGE_SHIFT;
        page_ = shadow_.find(address, access_.as.write);
        if (page_ != nullptr) page_->mutex.lock();
      }
      const uint64_t offset = address % CELL_BYTES;
      const uint64_t size = std::min(CELL_BYTES - offset, end - address);
      if (page_ == nullptr) {  // skip it
        address = std::min(end, (number_ + 1) << PAGE_SHIFT);
        continue;
      }
      access_.as.bytes = static_cast<uint8_t>(((1u << size) - 1) << offset);
      Page::Cell& cell = page_->cells[address % PAGE_BYTES / CELL_BYTES];
      const auto conflict = [&](const GlobalRecord& with) {
        return Conflict{with, address - offset, uint32_t{with.bytes} & access_.as.bytes};
      };
      if (conflicts(access_, cell.write)) return conflict(cell.write);
      if (access_.as.write) {
        if (conflicts(access_, cell.read)) return conflict(cell.read);
        put(cell.write, access_.as);
        // What a warp has read it updates now: others race with that at the most.
        const bool own =
            cell.read.cluster == access_.as.cluster && cell.read.agent == access_.as.agent;
        if (access_.as.atomic && own) cell.read = {};
      } else if (!access_.as.strong) {
        put(cell.read, access_.as);
      }
      address += size;
    }
    return {};
  }

 private:
  void leave() {
    if (page_ != nullptr) page_->mutex.unlock();
    page_ = nullptr;
  }

  GlobalShadow& shadow_;
  GlobalAccess& access_;
  uint64_t number_ = UINT64_MAX;
  Page* page_ = nullptr;
};

GlobalShadow::GlobalShadow() : root_(std::make_unique<Table>()) {}

GlobalShadow::~GlobalShadow() {
  for (auto& middle : root_->next) {
    auto* const tables = static_cast<Table*>(middle.load());
    if (tables == nullptr) continue;
    for (auto& last : tables->next) {
      auto* const pages = static_cast<Table*>(last.load());
      if (pages == nullptr) continue;
      for (auto& page : pages->next) delete static_cast<Page*>(page.load());
      delete pages;
    }
    delete tables;
  }
}

GlobalShadow::Page* GlobalShadow::find(uint64_t address, bool make) {
  // The entry; another thread may make it at the same time.
  const auto follow = [make]<class T>(std::atomic<void*>& entry, T*) {
    void* found = entry.load(std::memory_order_acquire);
    if (found == nullptr && make) {
      T* const made = new T;
      if (entry.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return made;
      delete made;
    }
    return static_cast<T*>(found);
  };
  const auto part = [&](uint32_t level) {
    return address >> (PAGE_SHIFT + LEVEL_BITS * level) & ((1u << LEVEL_BITS) - 1);
  };
  Table* const middle = follow(root_->next[part(2)], static_cast<Table*>(nullptr));
  if (middle == nullptr) return nullptr;
  Table* const last = follow(middle->next[part(1)], static_cast<Table*>(nullptr));
  if (last == nullptr) return nullptr;
  return follow(last->next[part(0)], static_cast<Page*>(nullptr));
}

std::optional<GlobalShadow::Conflict> GlobalShadow::access(GlobalAccess access, uint64_t address,
                                                           uint64_t bytes) {
  return Cursor(*this, access).step(address, bytes);
}

std::optional<GlobalShadow::Conflict> GlobalShadow::access(GlobalAccess access, uint32_t mask,
                                                           const uint64_t* addresses,
                                                           uint32_t bytes) {
  const uint64_t first = addresses[std::countr_zero(mask)];
  if (!access.as.write && find(first, false) == nullptr) {  // mostly all lanes read one page
    uint64_t other = 0;
    for_lanes(mask, [&](uint32_t lane) { other |= (addresses[lane] + bytes - 1) ^ first; });
    if (other >> PAGE_SHIFT == 0) return {};
  }
  Cursor cursor(*this, access);
  for (; mask != 0; mask &= mask - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(mask));
    access.as.lanes = static_cast<uint16_t>(lane_pair(lane, lane));
    auto conflict = cursor.step(addresses[lane], bytes);
    if (!conflict) continue;
    if (conflict->with.write && access.same != nullptr && (*access.same)(lane)) continue;
    conflict->lane = lane;
    return conflict;
  }
  return {};
}

void GlobalShadow::release(uint64_t address, const Channel& what) {
  const std::lock_guard lock(mutex_);
  channels_[address].join(what);
  has_released_.store(true, std::memory_order_release);
}

Channel GlobalShadow::released(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(address);
  return found == channels_.end() ? Channel() : found->second;
}

}  // namespace machine
