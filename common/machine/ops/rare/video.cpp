// Video instructions: sums, differences, extremes and comparisons of numbers in 8, 16 or 32 bits,
// saturated and then combined with a third operand. It knows nothing of memory or of other lanes.
// Source: PTX ISA #video-instructions, #simd-video-instructions
#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "common/machine/ops/elementwise.h"

namespace machine::elementwise {
namespace {

constexpr std::string_view VERBS[] = {"vadd", "vsub", "vabsdiff", "vavrg", "vmin",
                                      "vmax", "vshl", "vshr",     "vset"};
enum class Then : uint8_t { nothing, add, min, max };  // what is done with the third operand

struct Video {
  uint8_t verb : 4;   // index into VERBS
  uint8_t parts : 3;  // 1, 2, 4
  bool signed_d : 1, signed_a : 1, signed_b : 1;
  bool saturates : 1, wraps : 1;
  Then then : 2;
  uint8_t relation : 3;
  uint8_t shift : 4;  // of vmad

  int64_t of(int64_t a, int64_t b) const {
    const int64_t n = wraps ? b & 31 : std::min<int64_t>(static_cast<uint32_t>(b), 32);
    const int64_t relations[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    const int64_t average = (a + b + (a + b >= 0)) >> 1;
    const int64_t results[] = {a + b,   a - b,          std::abs(a - b),
                               average, std::min(a, b), std::max(a, b),
                               a << n,  a >> n,         relations[relation]};
    return results[verb];
  }
  // The nearest that `bits` bits of the result's sign can hold.
  int64_t clamped(int64_t value, uint32_t bits) const {
    if (!saturates) return value;
    return signed_d ? std::clamp(value, -(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1)
                    : std::clamp(value, int64_t{0}, (int64_t{1} << bits) - 1);
  }
  int64_t combined(int64_t value, uint32_t c) const {
    const int64_t other = signed_d ? int64_t{static_cast<int32_t>(c)} : int64_t{c};
    const int64_t own =
        signed_d ? int64_t{static_cast<int32_t>(value)} : int64_t{static_cast<uint32_t>(value)};
    if (then == Then::add) return own + other;
    if (then == Then::min) return std::min(own, other);
    return then == Then::max ? std::max(own, other) : value;
  }
};

int64_t field(uint32_t word, uint32_t i, uint32_t bits, bool is_signed) {
  const uint32_t top = word << (32 - bits - i * bits);
  return is_signed ? int64_t{static_cast<int32_t>(top) >> (32 - bits)}
                   : int64_t{top >> (32 - bits)};
}

constexpr auto VIDEO = [](Video how, uint32_t a, uint32_t b, uint32_t c) -> uint32_t {
  const uint32_t bits = 32 / how.parts;
  uint32_t sum = c, packed = 0;
  for (uint32_t i = 0; i < how.parts; ++i) {
    const int64_t x = field(a, i, bits, how.signed_a), y = field(b, i, bits, how.signed_b);
    const int64_t result = how.clamped(how.of(x, y), bits);
    if (how.parts == 1) return static_cast<uint32_t>(how.combined(result, c));
    sum += static_cast<uint32_t>(result);
    packed |= static_cast<uint32_t>(result & ((1u << bits) - 1)) << (i * bits);
  }
  return how.then == Then::add ? sum : packed;
};
constexpr auto VIDEO_OF_TWO = [](Video how, uint32_t a, uint32_t b) { return VIDEO(how, a, b, 0); };
constexpr auto VMAD = [](Video how, uint32_t a, uint32_t b, uint32_t c) {
  const int64_t product = field(a, 0, 32, how.signed_a) * field(b, 0, 32, how.signed_b);
  const int64_t sum = product + field(c, 0, 32, how.signed_a || how.signed_b);
  return static_cast<uint32_t>(how.clamped(sum >> how.shift, 32));
};

Video video_of(const Opcode& opcode) {
  Video how{};
  const std::string_view base = opcode.text.substr(0, opcode.text.find('.'));
  const char last = base.back();
  how.parts = last == '2' || last == '4' ? static_cast<uint8_t>(last - '0') : 1;
  const std::string_view verb = base.substr(0, base.size() - (how.parts != 1));
  const auto* const found = std::find(std::begin(VERBS), std::end(VERBS), verb);
  how.verb = static_cast<uint8_t>((found - std::begin(VERBS)) & 15);
  const bool compares = verb == "vset";  // it has no type of the result
  how.signed_d = is_signed(opcode.type(0));
  how.signed_a = is_signed(opcode.type(compares ? 0 : 1));
  how.signed_b = is_signed(opcode.type(compares ? 1 : 2));
  how.saturates = opcode.has(".sat");
  how.wraps = opcode.has(".wrap");
  how.then = static_cast<Then>(which(opcode, {".add", ".min", ".max"}));
  how.relation = which(opcode, {".ne", ".lt", ".le", ".gt", ".ge"}) & 7;  // 0: .eq
  how.shift = opcode.has(".shr15") ? 15 : opcode.has(".shr7") ? 7 : 0;
  return how;
}

Handler pick_video(Opcode& opcode) {
  const Video how = video_of(opcode);
  opcode.set(how);
  const bool has_third = opcode.operands != nullptr && opcode.operands->size() == 4;
  if (has_third) return apply<VIDEO, 0, u32, u32, u32, u32>;
  return how.then == Then::nothing ? apply<VIDEO_OF_TWO, 0, u32, u32, u32> : nullptr;
}
Handler pick_vmad(Opcode& opcode) {
  opcode.set(video_of(opcode));
  return apply<VMAD, 0, u32, u32, u32, u32>;
}

#define VIDEO_TYPE "{.s32,.u32}"
#define THREE_TYPES VIDEO_TYPE VIDEO_TYPE VIDEO_TYPE
#define VIDEO_RELATION "{.eq,.ne,.lt,.le,.gt,.ge}"
#define ONE_PART(name, does) \
  {name THREE_TYPES "{.sat,}{.add,.min,.max,}", "d:32, a:32, b:32, c:32?", pick_video, does}
#define PARTS(name, does)                                                                \
  {name "2" THREE_TYPES "{.sat,}{.add,}", "d:32, a:32, b:32, c:32", pick_video, does}, { \
    name "4" THREE_TYPES "{.sat,}{.add,}", "d:32, a:32, b:32, c:32", pick_video, does    \
  }

const Row ROWS[] = {
    ONE_PART("vadd", "d = a + b, then with c"),
    ONE_PART("vsub", "d = a - b, then with c"),
    ONE_PART("vabsdiff", "d = |a - b|, then with c"),
    ONE_PART("vmin", "d = min(a, b), then with c"),
    ONE_PART("vmax", "d = max(a, b), then with c"),
    {"vshl" THREE_TYPES "{.sat,}{.clamp,.wrap}{.add,.min,.max,}", "d:32, a:32, b:32, c:32?",
     pick_video, "d = a << b, then with c"},
    {"vshr" THREE_TYPES "{.sat,}{.clamp,.wrap}{.add,.min,.max,}", "d:32, a:32, b:32, c:32?",
     pick_video, "d = a >> b, then with c"},
    {"vmad" THREE_TYPES "{.sat,}{.shr7,.shr15,}", "d:32, a:32, b:32, c:32", pick_vmad,
     "d = (a * b + c) >> 0, 7 or 15"},
    {"vset" VIDEO_TYPE VIDEO_TYPE VIDEO_RELATION "{.add,.min,.max,}", "d:32, a:32, b:32, c:32?",
     pick_video, "d = a < b, then with c"},
    PARTS("vadd", "d = a + b, part by part; .add: their sum, + c"),
    PARTS("vsub", "d = a - b, as vadd"),
    PARTS("vabsdiff", "d = |a - b|, as vadd"),
    PARTS("vavrg", "d = (a + b) / 2, rounded up in magnitude, as vadd"),
    PARTS("vmin", "d = min(a, b), as vadd"),
    PARTS("vmax", "d = max(a, b), as vadd"),
    {"vset2" VIDEO_TYPE VIDEO_TYPE VIDEO_RELATION "{.add,}", "d:32, a:32, b:32, c:32", pick_video,
     "d = a < b, as vadd"},
    {"vset4" VIDEO_TYPE VIDEO_TYPE VIDEO_RELATION "{.add,}", "d:32, a:32, b:32, c:32", pick_video,
     "d = a < b, as vadd"},
};

}  // namespace
}  // namespace machine::elementwise

const machine::Section machine::sections::RARE_VIDEO{"Rarer: video", machine::elementwise::ROWS};
