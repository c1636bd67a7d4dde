// What a function does with its registers: which of them wgmma names, and where what is loaded early
// is used. It knows nothing of rows.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "common/machine/text/ptx.h"

namespace machine {

// By register: whether wgmma reads or writes it while other instructions run.
std::vector<bool> async_registers(const Function& function);

// A compiler may load a variable before it is known whether the value is wanted, since its memory is
// there in any case: if (n > 1) s += part[1] becomes a load, an addition and a selp. Who drops the
// value has not read the variable. So such a load counts as an access where its value is used, if
// nothing in between orders accesses.
struct EarlyLoads {
  struct Use {
    const Statement* load;
    Statement access;  // by lanes that keep the value, of an element of a vector alone
  };
  std::set<const Statement*> loads;
  std::multimap<size_t, Use> uses;  // by the index of the statement that uses the value
};
EarlyLoads early_loads(const Function& function);

}  // namespace machine
