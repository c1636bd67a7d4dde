// What the checker says when it has found something: what happened, who did both halves of it and
// where, and the instruction that would order them. A report ends the launch, or the settings let it
// go on.
#pragma once

#include <string>

#include "common/machine/check/checker_state.h"

namespace machine {

class RaceReport {
 public:
  explicit RaceReport(const CheckerState& state) : state_(state) {}

  // `bytes`: a mask over the cell's, of what both touch.
  void shared(const Attempt& attempt, const Record& record, uint32_t bytes, uint32_t index) const;
  // The same, by two lanes of one warp.
  void lanes(const Attempt& attempt, const Record& record, uint32_t bytes, uint32_t index) const;
  void global_memory(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  std::string text_of_global(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  // An atomic on shared memory that nothing has written.
  void updated(const Shadow& shadow, uint32_t index, const Attempt& attempt, uint32_t bytes) const;
  // Global memory is read, and nobody has written it in this process.
  void never_written(const Attempt& attempt, uint64_t address) const;
  // Global memory is accessed, and nobody has waited for the grids before this one.
  void grids_before(const Attempt& attempt, uint64_t address) const;
  // Bytes were read before anything had written them; now `writer` does, or nobody ever will.
  void early(const Shadow& shadow, uint32_t index, const Record& record,
             const Attempt* writer) const;
  void mbarrier_overwritten(const Attempt& attempt, uint32_t index) const;
  // An mbarrier's init is not known to who uses it.
  void init(const Attempt& attempt, const MbarrierState& mbarrier) const;
  // A CTA exits while its memory may be accessed, or has exited before it is.
  void exit(const Shadow& shadow, const Shadow::Visit& visit) const;
  // An instruction names a register that wgmma is using.
  void registers(const WarpState& by, uint32_t mask, const WgmmaRegister& reg) const;
  void wgmma_fence(const WarpState& by, const WgmmaRegister& reg) const;

 private:
  std::string text(const Rule& rule, const std::string& what, const std::string& lines,
                   const std::string& remedy) const;
  // Whether the earlier access of a conflict in global memory is known in this view.
  bool is_before(const Attempt& attempt, View view, const GlobalShadow::Conflict& conflict) const;
  const Rule& global_rule(const Attempt& attempt, const GlobalShadow::Conflict& conflict) const;
  std::string name_of_shared(uint32_t address) const;
  std::string name_of_global(uint64_t address) const;
  std::string name_of_cell(const Shadow& shadow, uint32_t index, uint32_t bytes) const;
  const MbarrierState* mbarrier_of(uint32_t agent) const;
  AgentKind kind_of(uint32_t agent) const;
  const Warp& warp_behind(uint32_t agent) const;  // of this cluster
  std::string role_of(uint32_t agent) const;
  std::string role_in(uint32_t cluster, uint32_t agent) const;
  std::string line_of(const char* name, const std::string& role, const char* does,
                      uint32_t pc) const;
  std::string later_line(const Attempt& attempt, const char* name = "later:   ") const;
  std::string mbarrier_line(uint32_t agent) const;
  std::string describe_pair(const Attempt& attempt, bool earlier_write, uint32_t earlier_pc,
                            const std::string& where, const std::string& for_whom = "") const;
  // The instruction that is missing between two accesses of this cluster.
  std::string remedy(const Attempt& attempt, const Record& record, uint32_t bytes,
                     View async) const;
  std::string remedy_by_kind(const Attempt& attempt, const Record& record,
                             const std::string& behind) const;
  std::string wider_scope(const Attempt& attempt, uint32_t earlier_pc, Scope least) const;
  std::string one_statement(const Attempt& attempt, const GlobalRecord& with) const;
  std::string flag_itself(const Attempt& attempt, const GlobalRecord& with) const;
  std::string remedy_at_exit(const Shadow::Visit& visit) const;
  std::string remedy_between_clusters(const Attempt& attempt, const GlobalRecord& with) const;
  // Causes that are named where they can be seen; "" if it is another one.
  std::string slot_that_is_left(const WarpState& reader, uint32_t pc, const Shadow& shadow,
                                uint32_t index) const;
  std::string too_few_bytes(const MbarrierState& mbarrier) const;
  std::string proxy_fence(const Attempt& attempt, uint32_t earlier_pc, const std::string& earlier,
                          View view, bool released) const;
  std::string waited_line(const Attempt& attempt, const Record& record) const;
  std::string empty_wait(const WarpState& by) const;
  bool others_touch(const Attempt& attempt) const;

  const CheckerState& state_;
};

}  // namespace machine
