// Small kernels that are right or wrong whatever the schedule, for tests under every policy with the
// checker on.
#pragma once

#include <doctest/doctest.h>

#include "common/machine/run/error.h"
#include "tests/machine/ptx_run.h"

namespace machine_test {

using machine::Error;
using machine::Policy;
using Words = std::vector<uint32_t>;

struct Schedule {
  Policy policy;
  uint64_t seed;
};
constexpr Schedule SCHEDULES[] = {{Policy::eager, 1},  {Policy::lazy, 1},   {Policy::random, 1},
                                  {Policy::random, 2}, {Policy::random, 3}, {Policy::random, 4}};

// `in`: bytes that the kernel reads, already allocated.
inline void check_legal(Program program, const Words& expected, const void* in = nullptr) {
  program.check = true;
  for (const Schedule& schedule : SCHEDULES) {
    CAPTURE(static_cast<int>(schedule.policy));
    CAPTURE(schedule.seed);
    program.policy = schedule.policy;
    program.seed = schedule.seed;
    Buffer<uint32_t> out(expected.size());
    CHECK(program.report(out.data(), in) == "");
    CHECK(Words(out.data(), out.data() + expected.size()) == expected);
  }
}

struct Fault {
  Error::Kind kind;
  std::vector<std::string> parts;  // of the report
};

inline void check_fault(Program program, const Fault& fault, const std::vector<Policy>& policies,
                        size_t words = 64, const void* in = nullptr) {
  program.check = true;
  for (const Policy policy : policies) {
    CAPTURE(static_cast<int>(policy));
    program.policy = policy;
    Buffer<uint32_t> out(words);
    try {
      program.run(out.data(), in);
      FAIL_CHECK("nothing was reported");
    } catch (const Error& error) {
      const std::string report = error.what();
      CAPTURE(report);
      CHECK(error.kind == fault.kind);
      for (const std::string& part : fault.parts) CHECK(contains(report, part));
    }
  }
}

inline const std::vector<Policy> ALL = {Policy::eager, Policy::lazy, Policy::random};

// %r40: the CTA, %r41: the warp, %r42: the lane. %rd20: where the thread of the grid stores a word.
inline const std::string WHO =
    "mov.u32 %r40, %ctaid.x;\nshr.u32 %r41, %t, 5;\nand.b32 %r42, %t, 31;\nmov.u32 %r43, %ntid.x;\n"
    "mad.lo.u32 %r43, %r40, %r43, %t;\nmul.wide.u32 %rd20, %r43, 4;\nadd.u64 %rd20, %out, %rd20;\n";

inline Program with(const std::string& body, uint32_t threads, uint32_t ctas = 1,
                    uint32_t cluster = 1) {
  Program program;
  program.body = WHO + body;
  program.block = {threads, 1, 1};
  program.grid = {ctas, 1, 1};
  program.cluster = {cluster, 1, 1};
  return program;
}

inline Words numbers(uint32_t count, uint32_t (*value)(uint32_t)) {
  Words words(count);
  for (uint32_t i = 0; i < count; ++i) words[i] = value(i);
  return words;
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace machine_test
