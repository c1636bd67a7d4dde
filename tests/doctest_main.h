// What every test binary shares: LADDER_TEST_MAIN(suite) in its main.cpp, skip() in its cases.
//
// A binary prints "SKIPPED <case>: <why>", "FAILED <case>" and, for cases with something to report,
// "PASSED <case>: <what>" as they happen, and last
//   <suite>: N passed, N failed, N skipped
// Exit codes: 0 nothing failed, 1 something failed, 3 REQUIRE_GPU=1 and a case wanted a GPU in
// vain.
#pragma once

#include <string>
#include <vector>

namespace ladder_test {

// Marks the running case as skipped; the case returns right after.
void skip(const std::string& why);

// What the running case covered, printed if it passes.
void note(const std::string& what);

// skip() for want of a GPU, which REQUIRE_GPU=1 turns into a failure.
void skip_without_gpu(const std::string& why);

// Source files whose cases this binary leaves out for want of a GPU, unless its command line picks
// cases. All of them count as one that is skipped, or, with REQUIRE_GPU=1, failed.
struct LeftOut {
  std::string files, why;  // "tests/rungs"
};

}  // namespace ladder_test

#ifdef DOCTEST_CONFIG_IMPLEMENT

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

namespace ladder_test {

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  bool wanted_gpu_in_vain = false;
  std::string why_skipped;  // of the running case; empty: not skipped
  std::string why_failed;   // of the running case, beyond what doctest knows
  std::string note;         // of the running case
};

inline Tally& tally() {
  static Tally the_tally;
  return the_tally;
}

inline bool gpu_required() {
  const char* value = std::getenv("REQUIRE_GPU");
  return value != nullptr && std::string(value) == "1";
}

void skip(const std::string& why) {
  tally().why_skipped = why;
}

void note(const std::string& what) {
  tally().note = what;
}

void skip_without_gpu(const std::string& why) {
  if (!gpu_required()) return skip(why);
  tally().wanted_gpu_in_vain = true;
  tally().why_failed = "REQUIRE_GPU=1, but " + why;
}

// Counts a case that has ended and prints its line.
inline void count_case(const std::string& name, bool failed) {
  Tally& t = tally();
  if (failed || !t.why_failed.empty()) {
    ++t.failed;
    const char* separator = t.why_failed.empty() ? "" : ": ";
    std::printf("FAILED %s%s%s\n", name.c_str(), separator, t.why_failed.c_str());
  } else if (!t.why_skipped.empty()) {
    ++t.skipped;
    std::printf("SKIPPED %s: %s\n", name.c_str(), t.why_skipped.c_str());
  } else {
    ++t.passed;
    if (!t.note.empty()) std::printf("PASSED %s: %s\n", name.c_str(), t.note.c_str());
  }
  std::fflush(stdout);
  t.why_skipped.clear();
  t.why_failed.clear();
  t.note.clear();
}

// Counts cases and prints the lines above; doctest's own reporter says which check failed and why.
struct LineReporter : doctest::IReporter {
  explicit LineReporter(const doctest::ContextOptions&) {}

  void test_case_start(const doctest::TestCaseData& test_case) override {
    name_ = test_case.m_name;
  }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    count_case(name_, stats.failure_flags != 0);
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  std::string name_;
};

REGISTER_LISTENER("lines", 1, LineReporter);

inline int test_main(const char* suite, int argc, char** argv,
                     const std::vector<LeftOut>& left_out = {}) {
  doctest::Context context;
  context.setOption("minimal",
                    true);  // doctest speaks only of failures; the lines above do the rest
  if (argc == 1) {
    for (const LeftOut& each : left_out) {
      context.addFilter("source-file-exclude", ("*" + each.files + "/*").c_str());
      skip_without_gpu(each.why);
      count_case(each.files, false);
    }
  }
  context.applyCommandLine(argc, argv);
  const int rc = context.run();
  if (context.shouldExit()) return rc;
  const Tally& t = tally();
  std::printf("%s: %d passed, %d failed, %d skipped\n", suite, t.passed, t.failed, t.skipped);
  if (rc != 0) return 1;
  return t.wanted_gpu_in_vain ? 3 : 0;
}

}  // namespace ladder_test

// Once a binary, in a file whose first lines are
//   #define DOCTEST_CONFIG_IMPLEMENT
//   #include "tests/doctest_main.h"
#define LADDER_TEST_MAIN(suite)                       \
  int main(int argc, char** argv) {                   \
    return ladder_test::test_main(suite, argc, argv); \
  }

#endif  // DOCTEST_CONFIG_IMPLEMENT
