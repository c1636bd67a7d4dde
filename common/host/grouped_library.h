// What cuBLASLt and cuBLAS do with groups.
#pragma once

#include <vector>

#include "common/host/grouped.h"
#include "common/host/problem.h"

namespace ladder {

// Of calls that differ in their matrices alone, whose groups have these rows: cuBLASLt group by group,
// on one stream and on eight, and of bf16 cuBLAS's grouped product, where there is one.
std::vector<LibraryCandidate> grouped_library_candidates(const std::vector<GroupedArgs>& calls,
                                                         const std::vector<tile::GroupRows>& rows);

}  // namespace ladder
