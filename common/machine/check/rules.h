// What reports are about: the names by which MACHINE_IGNORE leaves them out, and how bad each is.
#pragma once

#include <cstdint>
#include <string_view>

namespace machine {

enum class Severity : uint8_t {
  race,       // the values can differ
  undefined,  // by PTX only: no GPU is known to which it matters
  fatal,      // the kernel ends, or never does
};

struct Rule {
  const char* name;
  Severity severity = Severity::race;
};

namespace rule {
inline constexpr Rule SHARED_RACE{"shared-race"};
inline constexpr Rule WARPGROUP_RACE{"warpgroup-race", Severity::undefined};
inline constexpr Rule GLOBAL_RACE{"global-race"};
inline constexpr Rule LANE_RACE{"lane-race"};
inline constexpr Rule PROXY_RAW{"proxy-raw"};
inline constexpr Rule PROXY_WAW{"proxy-waw"};
inline constexpr Rule PROXY_WAR{"proxy-war", Severity::undefined};
inline constexpr Rule NEVER_WRITTEN{"never-written"};
inline constexpr Rule MBARRIER_INIT{"mbarrier-init"};
inline constexpr Rule MBARRIER_OVERWRITTEN{"mbarrier-overwritten"};
inline constexpr Rule CTA_EXIT{"cta-exit"};
inline constexpr Rule BULK_EXIT{"bulk-exit"};
inline constexpr Rule WGMMA_REGISTERS{"wgmma-registers"};
inline constexpr Rule WGMMA_FENCE{"wgmma-fence"};
inline constexpr Rule GRID_WAIT{"grid-wait"};
inline constexpr Rule STREAM_RACE{"stream-race"};
inline constexpr Rule ILLEGAL{"illegal", Severity::fatal};
inline constexpr Rule OUT_OF_BOUNDS{"out-of-bounds", Severity::fatal};
inline constexpr Rule MISALIGNED{"misaligned", Severity::fatal};
inline constexpr Rule TRAP{"trap", Severity::fatal};
inline constexpr Rule ASSERT{"assert", Severity::fatal};
inline constexpr Rule DEADLOCK{"deadlock", Severity::fatal};
inline constexpr Rule LIVELOCK{"livelock", Severity::fatal};
inline constexpr Rule REFUSED{"refused", Severity::fatal};

// Those that a run can go on after, and so can be left out.
inline constexpr Rule IGNORABLE[] = {
    SHARED_RACE, WARPGROUP_RACE, GLOBAL_RACE,     LANE_RACE,     PROXY_RAW,
    PROXY_WAW,   PROXY_WAR,      NEVER_WRITTEN,   MBARRIER_INIT, MBARRIER_OVERWRITTEN,
    CTA_EXIT,    BULK_EXIT,      WGMMA_REGISTERS, WGMMA_FENCE,   GRID_WAIT,
    STREAM_RACE};
}  // namespace rule

inline bool operator==(const Rule& one, const Rule& other) {
  return std::string_view(one.name) == other.name;
}

}  // namespace machine
