// What the checker says when it has found something: what happened, who did both halves of it and
// where, and the instruction that would order them. A report ends the launch, or the settings let it
// go on.
#pragma once

#include <functional>
#include <string>

#include "common/machine/check/checker_state.h"

namespace machine {

// The fence that is missing where who accessed memory earlier has not told the proxy of this view.
// `released`: to that of tensor maps.
std::string proxy_fence(View view, bool released);
// What is missing behind a cp.async that is in no group, and that another warp, or its own, has read.
std::string cp_async_commit(const CheckerState& state, const WarpState& reader, const Record& copy);

class RaceReport {
 public:
  explicit RaceReport(const CheckerState& state) : state_(state) {}

  // `bytes`: a mask over the cell's, of what both touch.
  void shared(const Attempt& attempt, const Record& record, uint32_t bytes, uint32_t index) const;
  // The same, of a conflict that may turn out to be none.
  Error error_of_shared(const Attempt& attempt, const Record& record, uint32_t bytes,
                        uint32_t index) const;
  // The same, by two lanes of one warp.
  void lanes(const Attempt& attempt, const Record& record, uint32_t bytes, uint32_t index) const;
  void global_memory(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  // The same, of a conflict that may turn out to be none.
  Error error_of_global(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  // An atomic on shared memory that nothing has written.
  void updated(const Shadow& shadow, uint32_t index, const Attempt& attempt, uint32_t bytes) const;
  // Global memory is read, and nobody has written it in this process.
  void never_written(const Attempt& attempt, uint64_t address) const;
  // Global memory is accessed, and nobody has waited for the grids before this one.
  void grids_before(const Attempt& attempt, uint64_t address) const;
  // Bytes were read before anything had written them; now `writer` does, or nobody ever will.
  void early(const Shadow& shadow, uint32_t index, const Shadow::Early& early,
             const Attempt* writer) const;
  // Of a hang: that these were, and nobody has.
  std::string read_early(const Shadow& shadow, uint32_t index, const Record& read) const {
    return "\n  Read before: " + name_of_cell(shadow, index, read.bytes) +
           ", which nothing has written yet" + line_of("access:  ", side_of(read));
  }
  // The rule that a conflict in shared memory breaks.
  const Rule& shared_rule(const Attempt& attempt, const Record& record, uint32_t bytes) const;
  void mbarrier_overwritten(const Attempt& attempt, uint32_t index) const;
  // An mbarrier is ended before a wait there is known to be over.
  void inval(const Attempt& attempt, const Record& wait, const MbarrierState& mbarrier) const;
  // An mbarrier's init is not known to who uses it.
  void init(const Attempt& attempt, const MbarrierState& mbarrier) const;
  // A CTA exits while its memory may be accessed, or has exited before it is.
  void exit(const Shadow& shadow, const Shadow::Visit& visit) const;
  // An instruction names a register that wgmma is using.
  void registers(const WarpState& by, uint32_t mask, const WgmmaRegister& reg) const;
  void wgmma_fence(const WarpState& by, const WgmmaRegister& reg) const;
  // wgmma adds to registers that nothing has written.
  void empty_accumulator(const WarpState& by) const;

 private:
  // Who executes an instruction, ", which reads it by ", and the instruction.
  struct Side {
    std::string role, does, op;
    uint32_t pc;
  };
  // What is said: without a role of `earlier` of one access only. In its sentences {earlier} stands for
  // the role of that side and {earlier_op} for its instruction, {later} and {later_op} for the other's.
  struct Said {
    Side earlier, later;
    std::string what = {}, remedy = {}, more_lines = {};

    std::string filled(std::string text) const;
  };
  std::string line_of(const char* name, const Side& side) const;
  Error error(const Warp& warp, const Rule& rule, uint32_t pc, uint32_t other_pc,
              const Said& said) const;
  // Of an instruction of `warp` at `pc`; other_pc is of what came before, or the same.
  void report(const Warp& warp, const Rule& rule, uint32_t pc, uint32_t other_pc,
              const std::function<Said()>& say) const;

  // Whether the earlier access of a conflict in global memory is known in this view.
  bool is_known(const Knowledge& known, View view, const GlobalShadow::Conflict& conflict) const;
  const Rule& global_rule(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  std::string name_of_shared(uint32_t address) const;
  std::string name_of_cell(const Shadow& shadow, uint32_t index, uint32_t bytes) const;
  Side side_of(const Warp& warp, const char* does, uint32_t pc) const;
  Side side_of(const Attempt& attempt) const;
  Side side_of(const Record& record) const;
  Side side_of(const Record& record, uint32_t address) const;  // in shared memory
  Side side_in(uint32_t cluster, const Record& record) const;
  std::string mbarrier_line(uint32_t agent) const;
  // The instruction that is missing between two accesses of this cluster.
  std::string remedy(const Attempt& attempt, const Record& record, uint32_t bytes,
                     View async) const;
  std::string remedy_by_kind(const Attempt& attempt, const Record& record) const;
  std::string remedy_between_clusters(const Attempt& attempt,
                                      const GlobalShadow::Conflict& conflict) const;
  std::string remedy_at_exit(const Shadow::Visit& visit, const Warp& exits) const;
  std::string spoken_for(const Attempt& attempt, const GlobalRecord& with) const;
  std::string one_statement(const Attempt& attempt, const GlobalRecord& with) const;
  std::string by_grid_sync() const;
  std::string by_lock(const char* fence) const;
  std::string counter(const Attempt& attempt, const Record& with) const;
  // Causes that are named where they can be seen; "" if it is another one.
  std::string slot_that_is_left(const WarpState& reader, uint32_t pc, const Shadow& shadow,
                                uint32_t index, uint32_t writer) const;
  std::string early_wait_line(const WarpState& by) const;
  std::string arrived_line(const WarpState& by, const char* who, uint32_t agent,
                           const char* other) const;
  std::string waited_line(const Attempt& attempt, const Record& record) const;
  std::string waited_line_of_reader(const WarpState& reader, uint32_t writer) const;

  const CheckerState& state_;
};

}  // namespace machine
