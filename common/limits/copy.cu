// What TMA can move: from L2 or DRAM into shared memory, and back to DRAM.
//
// Memory is a matrix of 64 columns of bf16, so that a box of rows is one piece. CTAs, or groups of
// them, take its boxes in turns: at any time they are at neighbouring ones.
#include <algorithm>
#include <map>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/tensor_map.h"
#include "common/host/text.h"
#include "common/limits/limit.h"
#include "common/limits/operand.h"
#include "common/limits/stamp.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/mbarrier.cuh"
#include "common/ptx/memory.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/tma_store.cuh"
#include "common/tile/ring.h"
#include "common/tile/swizzle.h"

namespace limits {

using ladder::check_cuda;
using ladder::Data;
using ladder::DeviceBuffer;

constexpr int COLS = 64;                // of the matrix and of a box: one row of the swizzle
constexpr int ROW_BYTES = COLS * 2;     // 128
constexpr int THREADS = 128;            // warp 0 asks, warp 1 sees it land, all add up
constexpr int RING_BYTES = 192 * 1024;  // what is on its way to one SM
constexpr long long L2_FOOTPRINT = 16ll << 20;        // stays in the L2 of every Hopper GPU
constexpr long long DRAM_FOOTPRINT = 4ll << 30;       // many times what L2 holds
constexpr long long MACHINE_FOOTPRINT = 512ll << 10;  // a CTA; the PTX machine has no cache
constexpr uint64_t SEED = 1;

// The boxes that a CTA takes: of `count`, every `stride`th from `first`, over and over.
struct Walk {
  int index, stride, count;

  __host__ __device__ Walk(int first, int stride_, int count_)
      : index(first % count_), stride(stride_), count(count_) {}
  // Returns whether it has come round to where it began, if stride divides count.
  __host__ __device__ bool advance() {
    index += stride;
    if (index < count) return false;
    while (index >= count) index -= count;
    return true;
  }
};

template <int BOX_ROWS_, int CLUSTER_>
struct ReadTile {
  static constexpr int BOX_ROWS = BOX_ROWS_, CLUSTER = CLUSTER_;
  static constexpr int BOX_BYTES = BOX_ROWS * ROW_BYTES;
  static constexpr int DEPTH = RING_BYTES / BOX_BYTES;   // slots in the ring
  static constexpr int SLICE_ROWS = BOX_ROWS / CLUSTER;  // of a box, which each CTA asks for
};

template <int DEPTH, int BOX_BYTES>
struct alignas(1024) RingSmem {
  unsigned char box[DEPTH][BOX_BYTES];  // [DEPTH][rows][64] bf16, 128-byte swizzle
  uint64_t full[DEPTH];                 // one arrival, and BOX_BYTES
  uint64_t empty[DEPTH];                // one arrival a CTA of the cluster
};

// What the words of a box add up to, each times an odd number of its place, so that boxes, rows or
// words in each other's place are seen: words [rows][32], their places in the matrix's order.
template <class Word>
__host__ __device__ uint32_t weighted_sum(int rows, int first, int step, const Word& word) {
  uint32_t sum = 0;
  for (int place = first; place < rows * (COLS / 2); place += step) {
    sum += static_cast<uint32_t>(2 * place + 1) * word(place / (COLS / 2), place % (COLS / 2) * 2);
  }
  return sum;
}

// Reads `boxes` boxes a CTA; the CTAs of a cluster, and `sharers` neighbours, read the same ones.
// sums [ctas][DEPTH][THREADS]: weighted_sum of what the slots hold in the end, a part each.
template <class T>
__global__ __cluster_dims__(T::CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1) void tma_read(const __grid_constant__ CUtensorMap map, int boxes,
                                                int count, int sharers, uint32_t* sums,
                                                Stamp* stamps) {
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  using Smem = RingSmem<T::DEPTH, T::BOX_BYTES>;
  Smem& smem = *reinterpret_cast<Smem*>(smem_bytes);
  const int rank = ptx::cluster_ctarank();
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&map);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], T::CLUSTER);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes, and peers arrive, on them
  }
  ptx::barrier_cluster_sync();  // before any thread of the cluster uses them

  tile::RingState<T::DEPTH> ring;
  if (threadIdx.x == 0) {
    stamp(stamps, 0);
    const int team = blockIdx.x / sharers, teams = (gridDim.x + sharers - 1) / sharers;
    Walk walk(team, teams, count);
    for (int i = 0; i < boxes; ++i, ring.advance(), walk.advance()) {
      uint64_t* full = &smem.full[ring.slot];
      ptx::mbarrier_wait_cluster(&smem.empty[ring.slot], ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, T::BOX_BYTES);
      const int slice = rank * T::SLICE_ROWS;  // the first row of ours
      unsigned char* dst = &smem.box[ring.slot][slice * ROW_BYTES];
      const int row = walk.index * T::BOX_ROWS + slice;
      if constexpr (T::CLUSTER == 1) {
        ptx::cp_async_bulk_tensor_2d_g2s(dst, &map, 0, row, full);
      } else {
        constexpr uint16_t ALL = (1 << T::CLUSTER) - 1;
        ptx::cp_async_bulk_tensor_2d_g2s_multicast(dst, &map, 0, row, full, ALL);
      }
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < boxes; ++i, ring.advance()) {
      ptx::mbarrier_wait_cluster(&smem.full[ring.slot], ring.parity);  // the box has landed
      for (int peer = 0; peer < T::CLUSTER; ++peer) {
        ptx::mbarrier_arrive_cluster(&smem.empty[ring.slot], peer);
      }
    }
    stamp(stamps, 1);
  }
  ptx::barrier_cluster_sync();  // all boxes have landed, and no peer arrives here any more

  for (int slot = 0; slot < T::DEPTH; ++slot) {
    sums[(blockIdx.x * T::DEPTH + slot) * THREADS + threadIdx.x] =
        weighted_sum(T::BOX_ROWS, threadIdx.x, THREADS, [&](int row, int col) {
          return *reinterpret_cast<const uint32_t*>(
              &smem.box[slot][tile::swizzle_128b(row, col / 8) + col % 8 * 2]);
        });
  }
}

long long footprint(long long bytes) {
  return ladder::on_machine() ? MACHINE_FOOTPRINT * ladder::sm_count() : bytes;
}

// The last boxes that a CTA took: {how many it had taken before, which}.
std::vector<std::pair<int, int>> last_boxes(Walk walk, int boxes, int how_many) {
  std::vector<std::pair<int, int>> last;
  for (int i = 0; i < boxes; ++i, walk.advance()) {
    if (i >= boxes - how_many) last.emplace_back(i, walk.index);
  }
  return last;
}

template <class T>
class ReadLimit : public Limit {
 public:
  ReadLimit(long long bytes, int sharers, cudaStream_t stream)
      : sharers_(sharers * T::CLUSTER),
        count_(static_cast<int>(footprint(bytes) / T::BOX_BYTES)),
        matrix_(count_ * T::BOX_ROWS, COLS, Data::normal, SEED, stream),
        map_(ladder::tensor_map_2d(matrix_.get(), count_ * T::BOX_ROWS, COLS, COLS, T::SLICE_ROWS,
                                   COLS)) {
    check_cuda(cudaFuncSetAttribute(tma_read<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(Smem)),
               "shared memory of limits::tma_read");
    const auto kernel = reinterpret_cast<const void*>(tma_read<T>);
    ctas_ = T::CLUSTER * ladder::max_active_clusters(kernel, THREADS, sizeof(Smem), T::CLUSTER);
    sums_ = DeviceBuffer(static_cast<size_t>(ctas_) * T::DEPTH * THREADS * sizeof(uint32_t));
  }

  int ctas() const override { return ctas_; }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas_ * T::BOX_BYTES;
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    tma_read<T><<<ctas_, THREADS, sizeof(Smem), stream>>>(map_, passes, count_, sharers_,
                                                          sums_.as<uint32_t>(), stamps);
    check_cuda(cudaGetLastError(), "launch of limits::tma_read");
  }

  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(sums_, stream);
    launch(passes, stamps, stream);
    const std::vector<uint32_t> sums = download<uint32_t>(sums_, stream);
    std::map<int, uint32_t> known;  // by box
    for (int cta = 0; cta < ctas_; ++cta) {
      const Walk walk(cta / sharers_, (ctas_ + sharers_ - 1) / sharers_, count_);
      for (const auto& [i, box] : last_boxes(walk, passes, T::DEPTH)) {
        const size_t slot = static_cast<size_t>(cta) * T::DEPTH + i % T::DEPTH;
        uint32_t got = 0;
        for (int part = 0; part < THREADS; ++part) got += sums[slot * THREADS + part];
        const auto [entry, is_new] = known.try_emplace(box, 0);
        if (is_new) entry->second = sum_of_box(box);
        if (got == entry->second) continue;
        return ladder::format("CTA %d, box %d of %d: its words add up to %u, not %u", cta, box,
                              count_, got, entry->second);
      }
    }
    return "";
  }

 private:
  using Smem = RingSmem<T::DEPTH, T::BOX_BYTES>;

  uint32_t sum_of_box(int box) const {
    const long long row0 = static_cast<long long>(box) * T::BOX_ROWS;
    return weighted_sum(T::BOX_ROWS, 0, 1,
                        [&](int row, int col) { return matrix_.word(row0 + row, col); });
  }

  int sharers_, count_, ctas_ = 0;
  Operand matrix_;  // [count_ * BOX_ROWS][64]
  CUtensorMap map_;
  DeviceBuffer sums_;  // uint32_t [ctas][DEPTH][THREADS]
};

// --- DRAM, written -------------------------------------------------------------------------------

struct WriteTile {
  static constexpr int BOX_ROWS = 128, BOX_BYTES = BOX_ROWS * ROW_BYTES;
  static constexpr int DEPTH = RING_BYTES / BOX_BYTES;
  static constexpr int STORES = DEPTH / 2;  // that may still read their slots
};
using WriteSmem = RingSmem<WriteTile::DEPTH, WriteTile::BOX_BYTES>;

// Copies `boxes` boxes a CTA from one matrix to the same place in another. gridDim divides count,
// so that each box is one CTA's, which writes it again only when all it wrote before is there.
__global__ __launch_bounds__(THREADS, 1) void tma_copy(const __grid_constant__ CUtensorMap from,
                                                       const __grid_constant__ CUtensorMap to,
                                                       int boxes, int count, Stamp* stamps) {
  using T = WriteTile;
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  WriteSmem& smem = *reinterpret_cast<WriteSmem*>(smem_bytes);
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&from);
    ptx::prefetch_tensormap(&to);
    for (int slot = 0; slot < T::DEPTH; ++slot) {
      ptx::mbarrier_init(&smem.full[slot], 1);
      ptx::mbarrier_init(&smem.empty[slot], 1);
    }
    ptx::fence_mbarrier_init();  // before TMA counts bytes on them
  }
  ptx::bar_sync();  // before the other thread waits on them

  tile::RingState<T::DEPTH> ring;
  Walk walk(blockIdx.x, gridDim.x, count);
  if (threadIdx.x == 0) {
    stamp(stamps, 0);
    for (int i = 0; i < boxes; ++i, ring.advance(), walk.advance()) {
      uint64_t* full = &smem.full[ring.slot];
      ptx::mbarrier_wait(&smem.empty[ring.slot], ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, T::BOX_BYTES);
      ptx::cp_async_bulk_tensor_2d_g2s(smem.box[ring.slot], &from, 0, walk.index * T::BOX_ROWS,
                                       full);
    }
  } else if (threadIdx.x == 32) {
    for (int i = 0; i < boxes; ++i, ring.advance()) {
      ptx::mbarrier_wait(&smem.full[ring.slot], ring.parity);  // the box has landed
      ptx::cp_async_bulk_tensor_2d_s2g(&to, 0, walk.index * T::BOX_ROWS, smem.box[ring.slot]);
      ptx::cp_async_bulk_commit_group();
      ptx::cp_async_bulk_wait_group_read<T::STORES>();  // store i - STORES has read its slot
      if (i >= T::STORES) ptx::mbarrier_arrive(&smem.empty[(i - T::STORES) % T::DEPTH]);
      if (walk.advance()) ptx::cp_async_bulk_wait_group<0>();
    }
    ptx::cp_async_bulk_wait_group<0>();  // all is in global memory
    stamp(stamps, 1);
  }
}

// Writes one box, the first of `from`, to `boxes` places a CTA. gridDim divides count, as above.
__global__ __launch_bounds__(THREADS, 1) void tma_write(const __grid_constant__ CUtensorMap from,
                                                        const __grid_constant__ CUtensorMap to,
                                                        int boxes, int count, Stamp* stamps) {
  using T = WriteTile;
  extern __shared__ __align__(1024) unsigned char smem_bytes[];
  WriteSmem& smem = *reinterpret_cast<WriteSmem*>(smem_bytes);
  if (threadIdx.x != 0) return;
  ptx::mbarrier_init(&smem.full[0], 1);
  ptx::fence_mbarrier_init();
  ptx::mbarrier_arrive_expect_tx(&smem.full[0], T::BOX_BYTES);
  ptx::cp_async_bulk_tensor_2d_g2s(smem.box[0], &from, 0, 0, &smem.full[0]);
  ptx::mbarrier_wait(&smem.full[0], 0);

  stamp(stamps, 0);
  Walk walk(blockIdx.x, gridDim.x, count);
  for (int i = 0; i < boxes; ++i) {
    ptx::cp_async_bulk_tensor_2d_s2g(&to, 0, walk.index * T::BOX_ROWS, smem.box[0]);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<T::STORES>();
    if (walk.advance()) ptx::cp_async_bulk_wait_group<0>();
  }
  ptx::cp_async_bulk_wait_group<0>();  // all is in global memory
  stamp(stamps, 1);
}

// COPIES: from a matrix as large as the one that is written, else one box over and over.
template <bool COPIES>
class WriteLimit : public Limit {
 public:
  explicit WriteLimit(cudaStream_t stream)
      : count_(static_cast<int>(footprint(DRAM_FOOTPRINT) / (COPIES ? 2 : 1) / T::BOX_BYTES) /
               ladder::sm_count() * ladder::sm_count()),
        from_(from_rows(), COLS, Data::normal, SEED, stream),
        to_(static_cast<size_t>(count_) * T::BOX_BYTES) {
    check_cuda(cudaFuncSetAttribute(COPIES ? tma_copy : tma_write,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(WriteSmem)),
               "shared memory of limits::tma_copy or tma_write");
  }

  int ctas() const override { return ladder::sm_count(); }

  double work(int passes) const override {
    return static_cast<double>(passes) * ctas() * T::BOX_BYTES * (COPIES ? 2 : 1);
  }

  void launch(int passes, Stamp* stamps, cudaStream_t stream) override {
    const auto map = [](ladder::bf16* base, int rows) {
      return ladder::tensor_map_2d(base, rows, COLS, COLS, T::BOX_ROWS, COLS);
    };
    (COPIES ? tma_copy : tma_write)<<<ctas(), THREADS, sizeof(WriteSmem), stream>>>(
        map(from_.get(), from_rows()), map(to_.as<ladder::bf16>(), count_ * T::BOX_ROWS), passes,
        count_, stamps);
    check_cuda(cudaGetLastError(), "launch of limits::tma_copy or tma_write");
  }

  // The last boxes that each CTA wrote.
  std::string check(int passes, Stamp* stamps, cudaStream_t stream) override {
    poison(to_, stream);
    launch(passes, stamps, stream);
    for (int cta = 0; cta < ctas(); ++cta) {
      for (const auto& [i, box] : last_boxes(Walk(cta, ctas(), count_), passes, T::DEPTH)) {
        const uint32_t* base = to_.as<uint32_t>() + static_cast<size_t>(box) * T::BOX_BYTES / 4;
        const auto words = download<uint32_t>(base, T::BOX_BYTES / 4, stream);
        const long long row0 = COPIES ? static_cast<long long>(box) * T::BOX_ROWS : 0;
        for (int place = 0; place < T::BOX_BYTES / 4; ++place) {
          const int row = place / (COLS / 2), col = place % (COLS / 2) * 2;
          const uint32_t want = from_.word(row0 + row, col);
          if (words[place] == want) continue;
          return ladder::format("CTA %d, box %d of %d, row %d, columns %d and %d: %08x, not %08x",
                                cta, box, count_, row, col, col + 1, words[place], want);
        }
      }
    }
    return "";
  }

 private:
  using T = WriteTile;
  int from_rows() const { return T::BOX_ROWS * (COPIES ? count_ : 1); }

  int count_;        // boxes
  Operand from_;     // [from_rows()][64]
  DeviceBuffer to_;  // bf16 [count_ * BOX_ROWS][64]
};

// --- the list ------------------------------------------------------------------------------------

template <int BOX_ROWS, int CLUSTER = 1>
Entry read(const char* name, const char* what, Group group, int sharers = 1) {
  const long long bytes = group == Group::l2 ? L2_FOOTPRINT : DRAM_FOOTPRINT;
  const double l2_share = group == Group::l2 && sharers == 1 ? 1.0 / CLUSTER : 0;
  return {name,
          what,
          group,
          Data::normal,
          [bytes, sharers](cudaStream_t stream) {
            return std::make_unique<ReadLimit<ReadTile<BOX_ROWS, CLUSTER>>>(bytes, sharers, stream);
          },
          l2_share};
}

template <bool COPIES>
Entry write(const char* name, const char* what) {
  return {name, what, Group::dram, Data::normal,
          [](cudaStream_t stream) { return std::make_unique<WriteLimit<COPIES>>(stream); }};
}

std::vector<Entry> copy_limits() {
  return {
      read<128>("l2_tma_128", "L2 to shared memory, boxes of 128 rows", Group::l2),
      read<256>("l2_tma_256", "L2 to shared memory, boxes of 256 rows", Group::l2),
      read<256, 2>("l2_multicast_2", "the same, multicast to two CTAs", Group::l2),
      read<256>("l2_same_2", "no multicast, two neighbours read the same boxes", Group::l2, 2),
      read<256>("l2_same_16", "no multicast, 16 neighbours read the same boxes", Group::l2, 16),
      read<256>("dram_read", "DRAM to shared memory", Group::dram),
      write<true>("dram_copy", "DRAM to shared memory to DRAM, both counted"),
      write<false>("dram_write", "shared memory to DRAM"),
  };
}

}  // namespace limits
