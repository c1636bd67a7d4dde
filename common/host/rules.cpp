#include "common/host/rules.h"

#include <algorithm>

#include "common/host/text.h"
#include "common/host/validate.h"

namespace ladder {
namespace {

constexpr int MAX_DIM = 1 << 30;
constexpr long long MAX_MATRIX_BYTES = 1LL << 40;
constexpr uintptr_t ALIGNMENT_BYTES = 16;

}  // namespace

int Rules::choice(const char* name, int value, const std::vector<int>& values,
                  const char* choices) {
  return check_choice(&sentences_, name, value, values, choices);
}

int Rules::size(const char* name, int value) {
  if (value < 0) {
    add(format("%s is %d: a size must not be negative; the nearest that works is 0.", name, value));
  } else if (value > MAX_DIM) {
    add(format("%s is %d: a size must be at most 2^30; the nearest that works is %d.", name, value,
               MAX_DIM));
  }
  return std::clamp(value, 0, MAX_DIM);
}

void Rules::limit(const GridRules& rules, int max_ctas) {
  const int least = rules.persistent ? rules.cluster : 0;
  if (max_ctas < 0 || (max_ctas > 0 && max_ctas < least) || (max_ctas > 0 && !rules.persistent)) {
    add(format("max_ctas is %d: %s; the nearest that works is %d.", max_ctas,
               max_ctas < 0        ? "it must not be negative"
               : !rules.persistent ? "only persistent variants take a limit"
                                   : "it must be a whole cluster",
               max_ctas < 0 ? 0 : least));
  }
}

Operand Rules::matrix(const char* name, const char* ld_name, const char* rows_name,
                      const char* cols_name, const void* data, long long ld, int element_bits,
                      int* rows, int cols, int rows_multiple, const char* argument) {
  Operand operand =
      memory(name, format("the %s x %s elements of the matrix", rows_name, cols_name), data);
  const long long multiple = 128 / element_bits;
  const long long most = (1LL << 40) * 8 / element_bits - multiple;
  const long long nearest =
      (std::clamp<long long>(ld, cols, most) + multiple - 1) / multiple * multiple;
  operand.ld = nearest;
  if (ld < cols) {
    add(
        format("%s is %lld: it must be at least %s = %d and a multiple of %lld elements; the "
               "nearest that works is %lld.",
               ld_name, ld, cols_name, cols, multiple, nearest));
  } else if (ld > most) {
    add(format("%s is %lld: it must be at most %lld elements; the nearest that works is %lld.",
               ld_name, ld, most, nearest));
  } else if (ld % multiple != 0) {
    add(
        format("%s is %lld: it must be a multiple of %lld elements; the nearest larger that works "
               "is %lld.",
               ld_name, ld, multiple, nearest));
  }
  if (*rows == 0 || cols == 0) return operand;  // it has no bytes
  const long long most_elements = MAX_MATRIX_BYTES * 8 / element_bits;
  const long long most_rows =
      ((most_elements - cols) / nearest + 1) / rows_multiple * rows_multiple;
  if (*rows > most_rows) {
    const std::string works =
        argument == nullptr ? "" : format(", %s = %lld", argument, most_rows * 128);
    add(
        format("%s is %d: with %s = %lld, %s would span more than 2^40 bytes; the nearest that "
               "works is %lld%s.",
               rows_name, *rows, ld_name, nearest, name, most_rows, works.c_str()));
    *rows = static_cast<int>(most_rows);
  }
  if (*rows > 0) {
    operand.bytes = static_cast<size_t>(((*rows - 1) * nearest + cols) * element_bits + 7) / 8;
  }
  return operand;
}

Operand Rules::memory(const char* name, const std::string& what, const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  Operand operand{name, data, 0, address / ALIGNMENT_BYTES * ALIGNMENT_BYTES};
  if (data == nullptr) {
    add(format("%s is null: it must point to device memory for %s.", name, what.c_str()));
  } else if (operand.begin != address) {
    add(format("%s is 0x%llx: it must be a multiple of 16 bytes; the nearest below is 0x%llx.",
               name, static_cast<unsigned long long>(address),
               static_cast<unsigned long long>(operand.begin)));
  }
  return operand;
}

void Rules::apart(Operand* out, const std::vector<Operand>& others, const Operand& itself) {
  const auto hit = [&](const Operand& other) { return out->overlaps(other); };
  const auto first_hit = std::find_if(others.begin(), others.end(), hit);
  if (first_hit == others.end()) return;
  const Operand first = *first_hit;
  const Operand given = *out;
  std::vector<Operand> all = others;
  all.push_back(itself);  // which it no longer is once it has moved
  const auto in_the_way = [&] { return std::find_if(all.cbegin(), all.cend(), hit); };
  for (auto found = in_the_way(); found != all.cend(); found = in_the_way()) {
    out->begin = (found->end() + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
  }
  add(format(
      "%s is 0x%llx, so that it ends at 0x%llx and overlaps %s: what is written must share no "
      "byte with anything else of the call; the next address that works is 0x%llx.",
      given.name, static_cast<unsigned long long>(given.begin),
      static_cast<unsigned long long>(given.end()), first.name,
      static_cast<unsigned long long>(out->begin)));
}

std::string Rules::text() const {
  std::string all;
  for (const std::string& sentence : sentences_) all += (all.empty() ? "" : "\n") + sentence;
  return all;
}

}  // namespace ladder
