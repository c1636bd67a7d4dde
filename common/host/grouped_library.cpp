#include "common/host/grouped_library.h"

namespace ladder {

std::vector<LibraryCandidate> grouped_library_candidates(const GroupedArgs&,
                                                         const std::vector<tile::GroupRows>&) {
  return {};
}

}  // namespace ladder
