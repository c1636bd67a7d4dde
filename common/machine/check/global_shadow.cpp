// The shadow of global memory: pages that appear when they are first written. It knows nothing of
// what is done about a conflict.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/machine/check/shadow.h"

namespace machine {
namespace {

constexpr uint32_t PAGE_SHIFT = Footprint::PAGE_SHIFT, LEVEL_BITS = 12;
constexpr uint64_t PAGE_BYTES = 1ull << PAGE_SHIFT;

using Writes = std::array<GlobalRecord, PAGE_BYTES / CELL_BYTES>;

bool is_by_same(const GlobalRecord& a, const GlobalRecord& b) {
  return a.cluster == b.cluster && a.agent == b.agent;
}

bool same_moment(const GlobalRecord& a, const GlobalRecord& b) {
  return is_by_same(a, b) && a.clock == b.clock && a.strong == b.strong && a.scope == b.scope;
}

void put(GlobalRecord& into, const GlobalRecord& record) {
  if (!same_moment(into, record)) {
    into = record;
    return;
  }
  const uint32_t changed = lanes_of(record.bytes);
  into.lanes = (into.lanes & ~changed) | (record.lanes & changed);
  into.bytes |= record.bytes;
  into.pc = record.pc;
}

// So many bytes from there on, as a mask of a cell's.
uint8_t mask_of(uint64_t offset, uint64_t size) {
  return static_cast<uint8_t>(((1u << size) - 1) << offset);
}

// Accesses by different lanes of a warp, by different instructions, since the lanes last met.
bool is_other_lane(const GlobalAccess& access, const GlobalRecord& before, uint32_t bytes) {
  if (before.clock <= access.lanes_met_at || before.pc == access.as.pc || before.strong ||
      access.as.strong || !is_by_same(before, access.as)) {
    return false;
  }
  const bool narrow = before.narrow || access.as.narrow;
  return ((before.lanes ^ access.as.lanes) & lanes_of(narrow ? whole_words(bytes) : bytes)) != 0;
}

// Whether `bytes` of what was recorded happened before the access.
bool is_before(const GlobalAccess& access, const GlobalRecord& before, uint32_t bytes) {
  const Knowledge* const known =
      access.known->of_cluster(before.cluster, before.cluster == access.as.cluster);
  const View view = in_generic_proxy(before.agent, access.warps) ? access.of_generic : GENERIC;
  return known && is_ordered(*known, view, before.record(), bytes, access.warps);
}

bool are_strong_to_each_other(const GlobalAccess& access, const GlobalRecord& before) {
  if (!before.strong || !access.as.strong) return false;
  const auto cta = [&](uint32_t agent) { return agent / AGENTS_OF_WARP / access.warps_of_cta; };
  const bool same_cluster = before.cluster == access.as.cluster;
  return std::min(before.scope, access.as.scope) >=
         least_scope(same_cluster, same_cluster && cta(before.agent) == cta(access.as.agent));
}

bool conflicts(const GlobalAccess& access, const GlobalRecord& before) {
  const uint32_t bytes = before.bytes & access.as.bytes;
  if (before.clock == 0 || bytes == 0 || are_strong_to_each_other(access, before)) return false;
  return is_other_lane(access, before, bytes) || !is_before(access, before, bytes);
}

// Who has read a page since the last writes to it: of each cell the last reader, and beside it some of
// those before it that nothing orders before a later one.
class Reads {
 public:
  void add(uint64_t index, const GlobalAccess& access) {
    GlobalRecord& last = last_[index];
    forget(index, access.as);
    if (last.clock != 0 && !is_by_same(last, access.as) && !is_before(access, last, last.bytes)) {
      std::vector<GlobalRecord>& others = beside_[index];
      if (others.size() < MOST_BESIDE) others.push_back(last);
    }
    put(last, access.as);
  }
  // What a warp has read it updates now: others race with that at the most.
  void update(uint64_t index, const GlobalRecord& by) {
    if (is_by_same(last_[index], by)) last_[index] = {};
    forget(index, by);
  }
  // One that conflicts with the access, or null.
  const GlobalRecord* find_conflict(uint64_t index, const GlobalAccess& access) const {
    if (conflicts(access, last_[index])) return &last_[index];
    const auto found = beside_.find(index);
    if (found == beside_.end()) return nullptr;
    for (const GlobalRecord& read : found->second) {
      if (conflicts(access, read)) return &read;
    }
    return nullptr;
  }

 private:
  static constexpr size_t MOST_BESIDE = 16;

  void forget(uint64_t index, const GlobalRecord& by) {
    const auto found = beside_.find(index);
    if (found == beside_.end()) return;
    std::erase_if(found->second, [&](const GlobalRecord& read) { return is_by_same(read, by); });
  }

  std::array<GlobalRecord, PAGE_BYTES / CELL_BYTES> last_{};
  std::unordered_map<uint64_t, std::vector<GlobalRecord>> beside_;
};

}  // namespace

// What was written in this launch, page by page; who reads is kept for such pages only, from the first
// write on.
struct GlobalShadow::Page {
  std::mutex mutex;
  std::unique_ptr<Writes> writes;                   // null: only read so far
  std::unordered_map<uint64_t, GlobalRecord> left;  // by cell, of a write: bytes the last one left
  // By cell: strong loads that have seen the last write of these bytes, a strong one.
  std::unordered_map<uint64_t, std::vector<GlobalRecord>> seen;
  std::unique_ptr<Reads> reads;
  Footprint::Bytes read{};               // by anyone
  std::bitset<Footprint::CELLS> strong;  // read by who is strong
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

  // What kernels do most: the first write of a launch to a place that only writes have touched, or more
  // of the same write. False: nothing was done.
  bool write_first(uint64_t address, uint32_t bytes) {
    if (address >> PAGE_SHIFT != number_ || page_ == nullptr || page_->reads) return false;
    if (!page_->writes || !page_->left.empty()) return false;
    GlobalRecord& cell = (*page_->writes)[address % PAGE_BYTES / CELL_BYTES];
    const uint32_t offset = address % CELL_BYTES, mask = ((1u << bytes) - 1) << offset;
    if (!access_.as.write || offset + bytes > CELL_BYTES) return false;
    if (cell.clock != 0 && (!same_moment(cell, access_.as) || (cell.bytes & mask) != 0))
      return false;
    access_.as.bytes = static_cast<uint8_t>(mask);
    put(cell, access_.as);
    return true;
  }

  bool is_on_page_of(uint64_t address) const { return address >> PAGE_SHIFT == number_; }

  std::optional<Conflict> step(uint64_t address, uint64_t bytes) {
    for (const uint64_t end = address + bytes; address < end;) {
      if (!is_on_page_of(address)) {
        leave();
        number_ = address >> PAGE_SHIFT;
        page_ = shadow_.find(address, access_.as.write || shadow_.keeps_reads_);
        if (page_ != nullptr) {
          page_->mutex.lock();
          if (access_.as.write && !page_->writes) page_->writes = std::make_unique<Writes>();
        }
      }
      const uint64_t offset = address % CELL_BYTES;
      const uint64_t size = std::min(CELL_BYTES - offset, end - address);
      if (page_ == nullptr || !page_->writes) {
        const uint64_t next = std::min(end, (number_ + 1) << PAGE_SHIFT);
        if (page_ != nullptr) note_reads(address, next);
        address = next;
        continue;
      }
      access_.as.bytes = mask_of(offset, size);
      const uint64_t index = address % PAGE_BYTES / CELL_BYTES;
      GlobalRecord& write = (*page_->writes)[index];
      const auto conflict = [&](const GlobalRecord& with) {
        return Conflict{with, address - offset, uint32_t{with.bytes} & access_.as.bytes};
      };
      const auto races = [&](const GlobalRecord& with) {
        return conflicts(access_, with) && !has_seen(index, with);
      };
      if (races(write)) return conflict(write);
      const auto left = page_->left.find(index);
      const bool has_left = left != page_->left.end();
      if (has_left && races(left->second)) return conflict(left->second);
      if (access_.as.write) {
        if (const auto seen = page_->seen.find(index); seen != page_->seen.end()) {
          for (GlobalRecord& by : seen->second) by.bytes &= static_cast<uint8_t>(~access_.as.bytes);
          std::erase_if(seen->second, [](const GlobalRecord& by) { return by.bytes == 0; });
        }
        if (has_left) left->second.bytes &= static_cast<uint8_t>(~access_.as.bytes);
        if ((write.bytes & ~access_.as.bytes) != 0 && !same_moment(write, access_.as)) {
          GlobalRecord& kept = page_->left[index] = write;
          kept.bytes &= static_cast<uint8_t>(~access_.as.bytes);
        }
        if (page_->reads) {
          const GlobalRecord* const read = page_->reads->find_conflict(index, access_);
          if (read != nullptr) return conflict(*read);
          if (access_.as.atomic) page_->reads->update(index, access_.as);
        }
        put(write, access_.as);
      } else {
        note_read(address, size);
        if (!access_.as.strong) {
          if (!page_->reads) page_->reads = std::make_unique<Reads>();
          page_->reads->add(index, access_);
        }
      }
      address += size;
    }
    return {};
  }

  // The same of what a copy stores, which is there before others look. It does not race with other
  // copies that store the same values.
  std::optional<Conflict> store(const Run& run) {
    for (uint64_t begin = run.address, all = run.address + run.bytes; begin < all;) {
      const uint64_t end = std::min(all, (begin / PAGE_BYTES + 1) * PAGE_BYTES);
      for (uint64_t at = begin; at < end;) {
        const auto conflict = step(at, end - at);
        if (!conflict) break;
        const bool by_thread = in_generic_proxy(conflict->with.agent, access_.warps);
        if (by_thread || !conflict->with.write || !is_same(*conflict, run)) return conflict;
        at = conflict->address + CELL_BYTES;
      }
      std::memcpy(reinterpret_cast<void*>(begin), run.values + (begin - run.address), end - begin);
      begin = end;
    }
    return {};
  }

 private:
  static bool is_same(const Conflict& conflict, const Run& run) {
    for (uint64_t i = 0; i < CELL_BYTES; ++i) {
      if (!(conflict.bytes >> i & 1)) continue;
      const uint64_t at = conflict.address + i;
      if (*reinterpret_cast<const std::byte*>(at) != run.values[at - run.address]) return false;
    }
    return true;
  }
  // Whether the access is behind loads that have seen the write.
  bool has_seen(uint64_t index, const GlobalRecord& write) const {
    const auto found = page_->seen.find(index);
    if (found == page_->seen.end()) return false;
    uint32_t unseen = write.bytes & access_.as.bytes;
    for (const GlobalRecord& by : found->second) {
      if (is_before(access_, by, by.bytes)) unseen &= ~by.bytes;
    }
    return unseen == 0;
  }
  // Of bytes in one cell of the page.
  void note_read(uint64_t address, uint64_t size) {
    const uint64_t index = address % PAGE_BYTES / CELL_BYTES;
    page_->read[index] |= mask_of(address % CELL_BYTES, size);
    if (access_.as.strong) page_->strong.set(index);
  }
  // Up to `end`, on the page.
  void note_reads(uint64_t address, uint64_t end) {
    while (address < end) {
      if (const uint64_t cells = (end - address) / CELL_BYTES;
          cells != 0 && address % CELL_BYTES == 0 && !access_.as.strong) {
        std::fill_n(&page_->read[address % PAGE_BYTES / CELL_BYTES], cells, uint8_t{0xff});
        address += cells * CELL_BYTES;
        continue;
      }
      const uint64_t size = std::min(CELL_BYTES - address % CELL_BYTES, end - address);
      note_read(address, size);
      address += size;
    }
  }
  void leave() {
    if (page_ != nullptr) page_->mutex.unlock();
    page_ = nullptr;
  }

  GlobalShadow& shadow_;
  GlobalAccess& access_;
  uint64_t number_ = UINT64_MAX;
  Page* page_ = nullptr;
};

GlobalShadow::GlobalShadow(bool keeps_reads) : keeps_reads_(keeps_reads), tables_(1) {}
GlobalShadow::~GlobalShadow() = default;

// What the entry points to, which `all` keeps; null if it is not there and is not to be made.
template <class T>
T* GlobalShadow::follow(std::atomic<void*>& entry, std::deque<T>& all, bool make) {
  if (entry.load(std::memory_order_acquire) == nullptr && make) {
    const std::lock_guard lock(mutex_);  // another thread may have made it by now
    if (entry.load() == nullptr) entry.store(&all.emplace_back(), std::memory_order_release);
  }
  return static_cast<T*>(entry.load(std::memory_order_acquire));
}

GlobalShadow::Page* GlobalShadow::find(uint64_t address, bool make) {
  const auto part = [&](uint32_t level) {
    return address >> (PAGE_SHIFT + LEVEL_BITS * level) & ((1u << LEVEL_BITS) - 1);
  };
  Table* table = &tables_.front();
  for (const uint32_t level : {2, 1}) {
    table = follow(table->next[part(level)], tables_, make);
    if (table == nullptr) return nullptr;
  }
  return follow(table->next[part(0)], pages_, make);
}

void GlobalShadow::add_accesses(Footprint* to) const {
  const auto for_entries = [](const Table& table, uint64_t number, auto&& f) {
    for (const std::atomic<void*>& entry : table.next) {
      if (const void* const next = entry.load()) f(next, number);
      ++number;
    }
  };
  for_entries(tables_.front(), 0, [&](const void* upper, uint64_t high) {
    for_entries(*static_cast<const Table*>(upper), high << LEVEL_BITS,
                [&](const void* lower, uint64_t middle) {
                  for_entries(*static_cast<const Table*>(lower), middle << LEVEL_BITS,
                              [&](const void* page, uint64_t number) {
                                const auto& from = *static_cast<const Page*>(page);
                                Footprint::Page into;
                                into.strong = from.strong;
                                into.read = from.read;
                                for (size_t i = 0; from.writes && i < from.writes->size(); ++i) {
                                  const GlobalRecord& write = (*from.writes)[i];
                                  into.written[i] |= write.bytes;
                                  if (write.strong) into.strong.set(i);
                                }
                                for (const auto& [i, left] : from.left) {
                                  into.written[i] |= left.bytes;
                                }
                                to->add_page(number, into);
                              });
                });
  });
}

std::optional<GlobalShadow::Conflict> GlobalShadow::access(GlobalAccess access,
                                                           std::span<const Run>& runs) {
  Cursor cursor(*this, access);
  while (!runs.empty()) {
    const Run run = runs.front();
    runs = runs.subspan(1);
    const auto conflict =
        run.values != nullptr ? cursor.store(run) : cursor.step(run.address, run.bytes);
    if (conflict) return conflict;
  }
  return {};
}

std::optional<GlobalShadow::Conflict> GlobalShadow::access(GlobalAccess access, uint32_t mask,
                                                           const uint64_t* addresses,
                                                           uint32_t bytes) {
  Cursor cursor(*this, access);
  uint32_t recorded = 0;  // on the cursor's page, and not stored yet
  const auto store = [&] {
    if (access.stores_at_once && access.store != nullptr) access.store->store(recorded);
    recorded = 0;
  };
  for (; mask != 0; mask &= mask - 1) {
    const uint32_t lane = first_lane(mask);
    access.as.lanes = lane_pair(lane, lane);
    if (!cursor.write_first(addresses[lane], bytes)) {
      if (!cursor.is_on_page_of(addresses[lane])) store();
      auto conflict = cursor.step(addresses[lane], bytes);
      const bool is_same = conflict && conflict->with.write && access.store != nullptr &&
                           access.store->is_same(lane);
      if (conflict && !is_same) {
        store();
        return conflict;
      }
    }
    recorded |= 1u << lane;
  }
  store();
  return {};
}

void GlobalShadow::see(uint64_t address, uint64_t bytes, GlobalRecord by) {
  Page* const page = find(address, false);  // what a lane reads is aligned, and lies in one
  if (page == nullptr) return;
  const std::lock_guard lock(page->mutex);
  if (!page->writes) return;
  for (const uint64_t end = address + bytes; address < end;) {
    const uint64_t index = address % PAGE_BYTES / CELL_BYTES;
    const uint64_t offset = address % CELL_BYTES,
                   size = std::min(CELL_BYTES - offset, end - address);
    const auto strong_bytes = [&by](const GlobalRecord& write) {
      return write.strong && !is_by_same(write, by) ? write.bytes : 0;
    };
    uint32_t strong = strong_bytes((*page->writes)[index]);
    const auto left = page->left.find(index);
    if (left != page->left.end()) strong |= strong_bytes(left->second);
    address += size;
    by.bytes = static_cast<uint8_t>(strong & mask_of(offset, size));
    if (by.bytes == 0) continue;
    std::vector<GlobalRecord>& all = page->seen[index];
    for (const GlobalRecord& before : all) {  // the first is before more
      if (is_by_same(before, by) && before.lanes == by.lanes)
        by.bytes &= static_cast<uint8_t>(~before.bytes);
    }
    if (by.bytes != 0) all.push_back(by);
  }
}

bool GlobalShadow::records_no_read(uint32_t mask, const uint64_t* addresses) {
  if (keeps_reads_) return false;
  for (uint64_t page = UINT64_MAX; mask != 0; mask &= mask - 1) {
    const uint64_t address = addresses[first_lane(mask)];
    if (address >> PAGE_SHIFT == page) continue;
    page = address >> PAGE_SHIFT;
    if (find(address, false) != nullptr) return false;
  }
  return true;
}

void GlobalShadow::release(uint64_t address, const Channel& what, const Writer& writer,
                           bool stores) {
  const std::lock_guard lock(mutex_);
  if (what.parts.empty() && !released_.contains(address)) return;
  Released& here = released_[address];
  // What others have released there is seen through atomics alone: who reads this store reads none
  // of theirs. The same thread's earlier release counts for its later stores.
  const bool begins_anew = stores && here.last != writer;
  if (begins_anew || here.what.use_count() > 1) {  // who has heard holds it
    here.what = std::make_shared<Channel>(begins_anew ? Channel() : *here.what);
  }
  const auto is_heard = [](const Channel::Part& part) { return part.reach != NOWHERE; };
  if (stores || std::ranges::any_of(what.parts, is_heard)) here.last = writer;
  here.what->join(what);
  here.what->let_others_hear();
  has_released_.store(true, std::memory_order_release);
}

std::shared_ptr<const Channel> GlobalShadow::released(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = released_.find(address);
  return found == released_.end() ? nullptr : found->second.what;
}

}  // namespace machine
