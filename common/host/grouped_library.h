// What cuBLASLt and cuBLAS do with groups.
#pragma once

#include <vector>

#include "common/host/grouped.h"
#include "common/host/problem.h"

namespace ladder {

// cuBLASLt group by group, on one stream and on eight, and of bf16 cuBLAS's grouped product, for calls
// like `args` whose groups have `rows` rows. They outlive neither args' scales nor sizes.
std::vector<LibraryCandidate> grouped_library_candidates(const GroupedArgs& args,
                                                         const std::vector<tile::GroupRows>& rows);

}  // namespace ladder
