// ldmatrix, stmatrix, mma and wgmma: operands, groups and waits. Arithmetic and layouts are
// matrix.h's; it knows nothing of how a product is made.
#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "common/machine/code/isa.h"
#include "common/machine/ops/product.h"
#include "common/machine/run/observer.h"

namespace machine {
namespace {

// ---- What was never written ----------------------------------------------------------------------

bool looks_for_poison(const Warp& warp) {
  const Checker* const checker = warp.cta->cluster->checker.get();
  return checker != nullptr && checker->poison_in_shared;
}

// ---- ldmatrix, stmatrix -------------------------------------------------------------------------

struct MatrixQualifiers {
  uint8_t count;
  bool transposed, generic;
};

// The rows' host addresses, of the lanes whose addresses count.
void matrix_rows(Warp& warp, const Slot& base, const MatrixQualifiers& of, Access access,
                 const char* what, uint8_t* chunks[LANES]) {
  constexpr uint32_t ROW_BYTES = 16;
  const uint32_t lanes = of.count == 4 ? FULL : (1u << 8 * of.count) - 1;
  uint32_t addresses[LANES] = {};
  const SharedSpace space = of.generic ? SharedSpace::generic : SharedSpace::cluster;
  for_lanes(lanes, [&](uint32_t lane) {
    addresses[lane] = shared_address(warp, base, lane, space, what);
    check_own_shared(warp, lane, addresses[lane], what,
                     "a peer's rows take ld or st.shared::cluster");
  });
  observer_of(warp).tell(&Checker::shared_access, warp, lanes, addresses, ROW_BYTES, access,
                         Order::weak, Scope::gpu, nullptr);
  for_lanes(lanes, [&](uint32_t lane) {
    if (addresses[lane] % ROW_BYTES != 0) {
      stop(warp, 1u << lane, what, " of a row that is not aligned to 16 bytes.");
    }
    chunks[lane] = reinterpret_cast<uint8_t*>(
        shared_bytes(warp, 1u << lane, addresses[lane], ROW_BYTES, what));
  });
  if (access == Access::write || !looks_for_poison(warp)) return;
  for_lanes(lanes, [&](uint32_t lane) {
    if (!has_poison(chunks[lane], ROW_BYTES)) return;
    observer_of(warp).tell(&Checker::never_written, warp, 1u << lane,
                           SHARED_WINDOW | addresses[lane]);
  });
}

Step ldmatrix(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<MatrixQualifiers>();
  uint8_t* chunks[LANES] = {};
  matrix_rows(warp, inst.slots[of.count], of, Access::read, "ldmatrix", chunks);
  uint32_t* rows[4] = {};
  for (uint32_t i = 0; i < of.count; ++i) rows[i] = row_of(warp, inst.slots[i]);
  load_matrices(of.count, of.transposed, chunks, rows);
  return Step::next;
}

Step stmatrix(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<MatrixQualifiers>();
  uint8_t* chunks[LANES] = {};
  matrix_rows(warp, inst.slots[0], of, Access::write, "stmatrix", chunks);
  const uint32_t* rows[4] = {};
  for (uint32_t i = 0; i < of.count; ++i) rows[i] = row_of(warp, inst.slots[1 + i]);
  store_matrices(of.count, of.transposed, chunks, rows);
  observer_of(warp).store(warp);
  ++warp.cta->cluster->changes;
  return Step::next;
}

template <Handler F>
Handler pick_matrices(Opcode& opcode) {
  opcode.convergent = true;
  const auto count = static_cast<uint8_t>(1 << which(opcode, {".x2", ".x4"}));
  const bool generic = shared_space(opcode) == SharedSpace::generic;
  opcode.set(MatrixQualifiers{count, opcode.has(".trans"), generic});
  return F;
}

// ---- mma.sync -----------------------------------------------------------------------------------

Step mma_sync(Warp& warp, const Inst& inst, uint32_t) {
  const auto of = inst.as<ProductQualifiers>();
  const Mma shape = {of.a, of.b, of.accumulator, of.size, of.saturates};
  const uint32_t b_count = shape.k * element_bytes(shape.a_type) / 16, a_count = 2 * b_count;
  const uint32_t d_count = accumulator_registers(shape.accumulator, 8);
  uint32_t* rows[16] = {};
  for (uint32_t i = 0; i < inst.slot_count; ++i) rows[i] = row_of(warp, inst.slots[i]);
  mma(shape, rows, rows + d_count, rows + d_count + a_count, rows + d_count + a_count + b_count);
  warp.multiplies = true;
  return Step::next;
}

Handler pick_mma(Opcode& opcode) {
  opcode.convergent = true;
  ProductQualifiers qualifiers = product_qualifiers(opcode);
  qualifiers.size = static_cast<uint16_t>(extent(shape_of(opcode), 'k'));
  opcode.set(qualifiers);
  const int bytes = qualifiers.size * element_bytes(qualifiers.a);
  if (opcode.type(0) != opcode.type(3) ||
      element_bytes(qualifiers.a) != element_bytes(qualifiers.b)) {
    return nullptr;
  }
  return bytes == 16 || bytes == 32 ? mma_sync : nullptr;
}

// ---- wgmma --------------------------------------------------------------------------------------

constexpr uint32_t WARPS = 4;  // of a warpgroup

// Completes the operations of a warpgroup before number `end`, which all its warps have issued.
void finish_wgmma(Cta& cta, uint32_t index, uint64_t end);

// A wgmma.mma_async, as a warp executes it: where its operands stand among the slots, and what they
// say.
struct Wgmma {
  Warp& warp;
  const Inst& inst;
  ProductQualifiers of = inst.as<ProductQualifiers>();
  bool a_in_memory = !of.a_in_registers;
  int n = of.size;
  uint32_t a = accumulator_registers(of.accumulator, n), b = a + (a_in_memory ? 1 : 4);
  uint32_t scale_d = b + 1, scale_a = b + 2, scale_b = b + 3, transpose_a = b + 4;
  uint32_t transpose_b = a_in_memory ? transpose_a + 1 : transpose_a;

  // An immediate operand; 0 where it is left out.
  int32_t setting(uint32_t slot) const {
    return slot < inst.slot_count ? static_cast<int32_t>(value_of(warp, inst.slots[slot], 0)) : 0;
  }
  bool negates() const { return (setting(scale_a) < 0) != (setting(scale_b) < 0); }
  MatrixView view_of_a(uint64_t descriptor) const {
    return MatrixView(descriptor, of.a, setting(transpose_a) == 1);
  }
  MatrixView view_of_b(uint64_t descriptor) const {
    return MatrixView(descriptor, of.b, setting(transpose_b) == 1);
  }
  // The lanes that add to D: of a predicate, or of a 0 or 1 in its place.
  uint32_t adding_lanes(uint32_t mask) const {
    const Slot& slot = inst.slots[scale_d];
    if (slot.width == Width::pred) return get_pred(warp, slot) & mask;
    return value_of(warp, slot, first_lane(mask)) != 0 ? mask : 0;
  }
};

void check_inside(Warp& warp, const MatrixView& view, uint64_t descriptor, int first, int count,
                  const char* operand) {
  const Cta& cta = *warp.cta;
  if (view.inside(first, count, SMEM_BASE, SMEM_BASE + cta.smem_bytes)) return;
  const Segment reads = view.extent(first, count);
  stop_as(rule::OUT_OF_BOUNDS, warp, FULL, "wgmma reads ", operand, " from shared offset ",
          reads.address, " to ", reads.address + reads.bytes,
          ", but the CTA's shared memory is from ", SMEM_BASE, " to ", SMEM_BASE + cta.smem_bytes,
          ": look at the descriptor's start address, LBO and SBO: ", descriptor_text(descriptor),
          ".");
}

// What a warp's part of an operation reads; before it does.
void look_for_poison(Warp& warp, uint32_t pc, const MatrixView& view, int first, int count,
                     const uint8_t* window) {
  if (!looks_for_poison(warp)) return;
  thread_local std::vector<Segment> segments;
  segments.clear();
  view.append_segments(first, count, segments);
  for (const Segment& segment : segments) {
    if (!has_poison(window + segment.address, segment.bytes)) continue;
    Fragment at{pc};
    Fragment* const before = std::exchange(warp.current, &at);
    observer_of(warp).tell(&Checker::never_written, warp, FULL,
                           SHARED_WINDOW | warp.cta->rank << RANK_SHIFT | segment.address);
    warp.current = before;
    return;
  }
}

// Multiplies for the four warps: B is decoded once.
void run_wgmma(Cta& cta, uint32_t group, WgmmaOp& op) {
  const uint8_t* const window = reinterpret_cast<const uint8_t*>(cta.smem) - SMEM_BASE;
  thread_local OperandA a;
  thread_local OperandB b;
  Warp* const warps = &cta.warps[group * WARPS];
  const Wgmma first{warps[0], *op.inst};
  const ProductQualifiers of = first.of;
  const bool cut_off = of.a == MatrixType::E4M3 && of.b == MatrixType::E4M3 &&
                       of.accumulator == AccumulatorType::F32;
  const MatrixView view_b = first.view_of_b(op.descriptor_b);
  look_for_poison(warps[0], op.pc, view_b, 0, first.n, window);
  decode_b(view_b, first.n, window, b);
  for (uint32_t i = 0; i < WARPS; ++i) {
    const Wgmma mine{warps[i], *op.inst};
    const Slot* const slots = op.inst->slots;
    if (mine.a_in_memory) {
      const MatrixView view_a = mine.view_of_a(op.descriptor_a[i]);
      look_for_poison(mine.warp, op.pc, view_a, static_cast<int>(i) * 16, 16, window);
      decode_a(view_a, static_cast<int>(i), window, mine.negates(), a);
    } else {
      const uint32_t* rows[4] = {};
      for (uint32_t r = 0; r < 4; ++r) rows[r] = row_of(mine.warp, slots[mine.a + r]);
      decode_a(rows, 2, of.a, mine.negates(), a);
    }
    uint32_t* d[128] = {};
    for (uint32_t r = 0; r < mine.a; ++r) d[r] = row_of(mine.warp, slots[r]);
    const bool scale_d = (op.scale_d >> i & 1) != 0;
    if (cut_off) {
      multiply_e4m3(a, b, scale_d, d);
    } else {
      multiply(a, b, of.accumulator, scale_d, of.saturates, d);
    }
  }
  op.done = true;
  cta.cluster->products += uint64_t{64} * first.n * wgmma_k(of.a);
}

// What an instruction reads of `count` values of mn from `first` on, by what its descriptor says.
// Kernels go round the same slots again and again.
using SegmentsKey = std::tuple<uint64_t, MatrixType, bool, int, int>;
thread_local std::map<SegmentsKey, std::vector<Segment>> known_segments;

const std::vector<Segment>& segments_of(const MatrixView& view, uint64_t descriptor, int first,
                                        int count) {
  const SegmentsKey key = {descriptor, view.type(), view.mn_major(), first, count};
  const auto [at, made] = known_segments.try_emplace(key);
  if (made) view.append_segments(first, count, at->second);
  return at->second;
}

void check_operands(const Wgmma& mine, uint64_t group, const WgmmaDescriptors& descriptors,
                    bool adds) {
  Warp& warp = mine.warp;
  const int row = static_cast<int>(warp.index % WARPS * 16);
  const auto [descriptor_a, descriptor_b] = descriptors;
  const MatrixView a = mine.view_of_a(descriptor_a), b = mine.view_of_b(descriptor_b);
  if (mine.a_in_memory) check_inside(warp, a, descriptor_a, row, 16, "A");
  check_inside(warp, b, descriptor_b, 0, mine.n, "B");
  Checker* const checker = warp.cta->cluster->checker.get();
  if (checker == nullptr) return;
  constexpr size_t REMEMBERED = 4096;
  if (known_segments.size() > REMEMBERED) known_segments.clear();
  Checker::WgmmaReads reads;
  if (mine.a_in_memory) reads.a = segments_of(a, descriptor_a, row, 16);
  reads.b = segments_of(b, descriptor_b, 0, mine.n);
  reads.adds = adds;
  checker->wgmma_issue(warp, mine.inst, group, reads, descriptors);
}

// Descriptors and scale-d are one value for the whole warpgroup; here of a warp's lanes.
void check_uniform(const Wgmma& mine, uint32_t mask) {
  const auto check = [&](bool same, const char* operand) {
    if (!same) stop(mine.warp, mask, "The lanes of a warp give wgmma different ", operand, ".");
  };
  const auto agree = [&](uint32_t slot) {
    return lanes_that_agree(mine.warp, mine.inst.slots[slot], mask) == mask;
  };
  const uint32_t adding = mine.adding_lanes(mask);
  check(adding == 0 || adding == mask, "values of scale-d");
  check(agree(mine.b), "descriptors of B");
  check(!mine.a_in_memory || agree(mine.a), "descriptors of A");
}

// Each warp issues; when the fourth has, the operation can run.
Step wgmma_mma_async(Warp& warp, const Inst& inst, uint32_t mask) {
  Cta& cta = *warp.cta;
  const uint32_t index = warp.index / WARPS, member = warp.index % WARPS;
  if (index * WARPS + WARPS > cta.warps.size()) {
    stop(warp, FULL, "wgmma needs a whole warpgroup, but the CTA has only ", cta.warps.size(),
         " warps: launch a multiple of 128 threads.");
  }
  Warpgroup& group = cta.warpgroups[index];
  warp.multiplies = true;
  const Wgmma mine{warp, inst};
  check_uniform(mine, mask);
  const uint64_t a = mine.a_in_memory ? value_of(warp, inst.slots[mine.a], 0) : 0;
  const uint64_t b = value_of(warp, inst.slots[mine.b], 0);
  const uint32_t scale_d = mine.adding_lanes(mask) != 0;
  check_operands(mine, group.committed[member] + 1, {a, b}, scale_d != 0);
  const uint64_t number = group.issued[member]++;
  if (number - group.first >= group.ops.size()) {
    WgmmaOp& made = group.ops.emplace_back();
    made.inst = &inst;
    made.pc = warp.pc();
  }
  WgmmaOp& op = group.ops[number - group.first];
  if (op.inst != &inst) {
    stop(warp, FULL,
         "The warps of a warpgroup must execute the same wgmma.mma_async, but another of them is "
         "at ",
         cta.cluster->grid->program->place(op.pc), ".");
  }
  if (op.issued != 0) {  // by another warp, which gave the same
    const int other = std::countr_zero(uint32_t{op.issued});
    const auto check = [&](bool same, const char* operand) {
      if (!same) stop(warp, FULL, "The warps of a warpgroup give wgmma different ", operand, ".");
    };
    check((op.scale_d >> other & 1) == scale_d, "values of scale-d");
    check(op.descriptor_b == b, "descriptors of B");
    check(!mine.a_in_memory || op.descriptor_a[other] == a, "descriptors of A");
  }
  op.issued |= 1u << member;
  op.group[member] = group.committed[member] + 1;
  op.scale_d |= scale_d << member;
  op.descriptor_b = b;
  op.descriptor_a[member] = a;
  if (op.issued == 15) {
    ++cta.cluster->events;
    if (Trace* trace = cta.cluster->trace) op.ends = trace->wgmma(warp, mine.of.size);
    if (cta.cluster->grid->policy == Policy::eager) finish_wgmma(cta, index, number + 1);
  }
  return Step::next;
}

Handler pick_wgmma(Opcode& opcode) {
  opcode.convergent = true;
  const uint32_t n = extent(shape_of(opcode), 'n');
  ProductQualifiers qualifiers = product_qualifiers(opcode);
  qualifiers.size = static_cast<uint16_t>(n);
  qualifiers.a_in_registers =
      opcode.operands->size() > 1 && (*opcode.operands)[1].kind == Operand::Kind::vector;
  opcode.set(qualifiers);
  const bool right_k = static_cast<int>(extent(shape_of(opcode), 'k')) == wgmma_k(qualifiers.a);
  return right_k && n % 8 == 0 && n >= 8 && n <= 256 ? wgmma_mma_async : nullptr;
}

Step wgmma_commit_group(Warp& warp, const Inst&, uint32_t) {
  ++warp.cta->warpgroups[warp.index / WARPS].committed[warp.index % WARPS];
  return Step::next;
}

// Waits until all but the last N groups that this warp committed are complete, here for the whole
// warpgroup. On an H200 the four warps' waits return in the same cycle where each group begins with
// wgmma.fence, which makes the warps meet; without it a wait may return before another warp has
// come to its part, whose products have been made all the same, by warp 0 (tests/golden/answers.md, 1 and
// 14).
Step wgmma_wait_group(Warp& warp, const Inst& inst, uint32_t) {
  Cta& cta = *warp.cta;
  const uint32_t index = warp.index / WARPS, member = warp.index % WARPS;
  Warpgroup& group = cta.warpgroups[index];
  const uint64_t pending = warp.row<uint32_t>(inst.op[0])[0];
  const uint64_t committed = group.committed[member];
  const uint64_t wanted = committed > pending ? committed - pending : 0;
  uint64_t end = group.first;   // operations that must be complete
  uint64_t ends = 0;            // when they are, on the timeline's clock
  uint64_t groups[WARPS] = {};  // of which these are
  for (size_t i = 0; i < group.ops.size(); ++i) {
    const WgmmaOp& op = group.ops[i];
    if (!(op.issued >> member & 1) || op.group[member] > wanted) break;
    if (op.issued != 15) {
      warp.current->wait = WaitFor::wgmma;
      return Step::wait;
    }
    end = group.first + i + 1;
    ends = op.ends;
    std::copy_n(op.group, WARPS, groups);
  }
  finish_wgmma(cta, index, end);
  groups[member] = wanted;
  observer_of(warp).wgmma_wait(warp, groups, ends);
  // Those that every warp has waited for are dropped.
  group.waited[member] = std::max(group.waited[member], end);
  const uint64_t all = *std::min_element(group.waited, group.waited + WARPS);
  while (group.first < all && !group.ops.empty()) {
    group.ops.pop_front();
    ++group.first;
  }
  return Step::next;
}

#define SHAPES_N(k)                                                                            \
  ".m64n8" k ",.m64n16" k ",.m64n24" k ",.m64n32" k ",.m64n40" k ",.m64n48" k ",.m64n56" k     \
  ",.m64n64" k ",.m64n72" k ",.m64n80" k ",.m64n88" k ",.m64n96" k ",.m64n104" k ",.m64n112" k \
  ",.m64n120" k ",.m64n128" k ",.m64n136" k ",.m64n144" k ",.m64n152" k ",.m64n160" k          \
  ",.m64n168" k ",.m64n176" k ",.m64n184" k ",.m64n192" k ",.m64n200" k ",.m64n208" k          \
  ",.m64n216" k ",.m64n224" k ",.m64n232" k ",.m64n240" k ",.m64n248" k ",.m64n256" k

const Row ROWS[] = {
    {"ldmatrix.sync.aligned.m8n8{.x1,.x2,.x4}{.trans,}{.shared,.shared::cta,}.b16", "{d:32}, [a]",
     pick_matrices<ldmatrix>, "load 8x8 matrices; lanes 8i to 8i+7 point to the rows of matrix i"},
    {"stmatrix.sync.aligned.m8n8{.x1,.x2,.x4}{.trans,}{.shared,.shared::cta,}.b16", "[a], {s:32}",
     pick_matrices<stmatrix>, "store 8x8 matrices"},
    {"mma.sync.aligned{.m16n8k4,.m16n8k8,.m16n8k16,.m16n8k32}.row.col{.satfinite,}{.f32,.f16,.s32}"
     "{.bf16,.f16,.tf32,.e4m3,.e5m2,.s8,.u8}{.bf16,.f16,.tf32,.e4m3,.e5m2,.s8,.u8}{.f32,.f16,.s32}",
     "{d:32}, {a:32}, {b:32}, {c:32}", pick_mma, "D = A * B + C on one warp"},
    {"wgmma.mma_async.sync.aligned{" SHAPES_N("k16") "}{.f32,.f16}{.bf16,.f16}{.bf16,.f16}", "*",
     pick_wgmma, "D = A * B + D on a warpgroup, asynchronously"},
    {"wgmma.mma_async.sync.aligned{" SHAPES_N("k8") "}.f32.tf32.tf32", "*", pick_wgmma,
     "the same in tf32"},
    {"wgmma.mma_async.sync.aligned{" SHAPES_N("k32") "}{.f32,.f16}{.e4m3,.e5m2}{.e4m3,.e5m2}", "*",
     pick_wgmma, "the same in fp8"},
    {"wgmma.mma_async.sync.aligned{" SHAPES_N("k32") "}{.satfinite,}.s32{.s8,.u8}{.s8,.u8}", "*",
     pick_wgmma, "the same in integers"},
    {"wgmma.fence.sync.aligned", "", together<tells<&Checker::wgmma_fence>>,
     "order accesses to registers before wgmma.mma_async"},
    {"wgmma.commit_group.sync.aligned", "", together<wgmma_commit_group>,
     "make a group of what was issued"},
    {"wgmma.wait_group.sync.aligned", "n:32", together<wgmma_wait_group>,
     "wait until at most n groups are pending"},
};

void finish_wgmma(Cta& cta, uint32_t index, uint64_t end) {
  Warpgroup& group = cta.warpgroups[index];
  for (uint64_t number = group.first; number < end; ++number) {
    WgmmaOp& op = group.ops[number - group.first];
    if (!op.done) run_wgmma(cta, index, op);
  }
}

}  // namespace

std::vector<WgmmaOperand> wgmma_operands(Warp& warp, const Inst& inst,
                                         const WgmmaDescriptors& descriptors) {
  const Wgmma mine{warp, inst};
  const auto [a, b] = descriptors;
  std::vector<WgmmaOperand> operands;
  if (mine.a_in_memory) operands.push_back({'A', a, mine.view_of_a(a).extent(0, 64)});
  operands.push_back({'B', b, mine.view_of_b(b).extent(0, mine.n)});
  return operands;
}

bool finish_next_wgmma(Cta& cta) {
  for (uint32_t index = 0; index < cta.warpgroups.size(); ++index) {
    Warpgroup& group = cta.warpgroups[index];
    for (size_t i = 0; i < group.ops.size(); ++i) {
      if (group.ops[i].done) continue;
      if (group.ops[i].issued != 15) break;
      finish_wgmma(cta, index, group.first + i + 1);
      return true;
    }
  }
  return false;
}

const Section sections::TENSOR{"Matrices", ROWS};

}  // namespace machine
