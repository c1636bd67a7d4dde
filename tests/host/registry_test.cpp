// Rungs register themselves; a wrong registration ends the program with a sentence.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "common/host/options.h"
#include "common/host/registry.h"

using ladder::GemmArgs;
using ladder::Registrar;
using ladder::Variant;

namespace {

// A kind of problem that is none.
struct OtherArgs : ladder::Call {
  static const ladder::ProblemKind& kind();
};
struct OtherKind : ladder::ProblemKind {
  const char* name() const override { return "other"; }
  const char* formula() const override { return "nothing"; }
  std::string violations(const ladder::GridRules&, const ladder::Call&) const override {
    return "";
  }
  bool needs_kernel(const ladder::Call&) const override { return true; }
  void run_without_kernel(const ladder::Call&) const override {}
  std::shared_ptr<ladder::Call> sizes_of(const ladder::Shape&) const override { return nullptr; }
  Traits traits(const ladder::Call&) const override { return {}; }
  std::unique_ptr<ladder::Problem> problem(const ladder::Shape&, ladder::Data, uint64_t,
                                           const ladder::DeviceInfo&) const override {
    return nullptr;
  }
};
const ladder::ProblemKind& OtherArgs::kind() {
  static const OtherKind kind;
  return kind;
}

Variant named(const char* name, bool result) {
  Variant variant{};
  variant.name = name;
  variant.result = result;
  variant.kernel.launch = +[](const GemmArgs&) {};
  return variant;
}

// A configuration that is expected to take US microseconds, whatever the shape.
template <int US>
Variant configuration(const char* name, bool persistent, int cluster_m, int cluster_n) {
  Variant variant = named(name, false);
  variant.kernel.cluster_m = cluster_m;
  variant.kernel.cluster_n = cluster_n;
  variant.kernel.persistent = persistent;
  variant.configuration = true;
  variant.predicted_us = +[](const GemmArgs&) { return double{US}; };
  return variant;
}

// What `body`, which may not return, wrote to stderr in a child process, and how the child ended.
struct Ending {
  bool aborted;
  int exit_code;
  std::string stderr_text;
};

Ending in_child(const std::function<int()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGABRT, SIG_DFL);  // doctest would report it as its own
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    _exit(body());
  }
  close(ends[1]);
  Ending ending{false, -1, ""};
  char buffer[256];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ending.stderr_text.append(buffer, static_cast<size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ending.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  if (WIFEXITED(status)) ending.exit_code = WEXITSTATUS(status);
  return ending;
}

void rejected(const char* file, std::vector<Variant> variants, const char* sentence) {
  const Ending ending = in_child([&] {
    const Registrar first("stages/05_wgmma.cu", "first", {named("only", true)});
    const Registrar second(file, "second", std::move(variants));
    return 0;
  });
  CAPTURE(file);
  CAPTURE(ending.stderr_text);
  CHECK(ending.aborted);
  CHECK(ending.stderr_text.find(sentence) != std::string::npos);
}

}  // namespace

TEST_CASE("registry: rungs come sorted, with stem and number from the file's name") {
  const Ending ending = in_child([] {
    const Registrar eleven("a/b.c/11_autotuned.cu", "eleven", {named("only", true)});
    const Registrar five("stages/05_wgmma.cu", "five", {named("x", false), named("y", true)});
    const Registrar seven("07_persistent.cu", "seven", {named("only", true)});
    const auto& all = ladder::stages();
    if (all.size() != 3) return 1;
    if (all[0].number != 5 || all[1].number != 7 || all[2].number != 11) return 2;
    if (all[0].stem != "05_wgmma" || all[1].stem != "07_persistent") return 3;
    if (all[2].stem != "11_autotuned") return 4;
    if (std::string(all[0].result().name) != "y") return 5;
    if (std::string(all[2].idea) != "eleven") return 6;
    return 0;
  });
  CAPTURE(ending.stderr_text);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("registry: a chooser stands for what it chooses, wherever a kernel runs") {
  static const Variant tall = named("tall", false), wide = named("wide", false);
  Variant chooser{};
  chooser.chooser.choose =
      +[](const GemmArgs& args) -> const Variant& { return args.m > args.n ? tall : wide; };
  ladder::GemmArgs args;
  args.m = 3;
  args.n = 2;
  args.k = 1;
  CHECK(std::string(ladder::chosen(chooser, args).name) == "tall");
  args.n = 3;
  CHECK(std::string(ladder::chosen(chooser, args).name) == "wide");
  CHECK(&ladder::chosen(tall, args) == &tall);
  for (int ladder::GemmArgs::*size :
       {&ladder::GemmArgs::m, &ladder::GemmArgs::n, &ladder::GemmArgs::k}) {
    ladder::GemmArgs none = args;
    none.*size = 0;
    CHECK(&ladder::chosen(chooser, none) == &chooser);
  }
}

TEST_CASE("registry: the least predicted configuration runs, of those that a limited grid allows") {
  const std::vector<Variant> all = {
      configuration<9>("slow", true, 1, 1), configuration<5>("pair", true, 2, 1),
      configuration<3>("four", true, 2, 2), configuration<1>("unlimited", false, 1, 1),
      configuration<1>("as_fast", true, 4, 2)};
  const auto picked = [&](int max_ctas) {
    ladder::GemmArgs args;
    args.max_ctas = max_ctas;
    return std::string(ladder::least_predicted(all, args)->name);
  };
  CHECK(picked(0) == "unlimited");  // the first of two that are equally fast
  CHECK(picked(8) == "as_fast");
  CHECK(picked(7) == "four");
  CHECK(picked(4) == "four");
  CHECK(picked(3) == "pair");
  CHECK(picked(1) == "slow");
  CHECK(ladder::least_predicted({named("unpredicted", true)}, GemmArgs()) == nullptr);
  GemmArgs limited;
  limited.max_ctas = 1;
  CHECK(ladder::least_predicted({configuration<1>("pair", true, 2, 1)}, limited) == nullptr);
}

TEST_CASE("registry: a call without a workspace gets no kernel that needs one") {
  std::vector<Variant> all = {configuration<1>("split", true, 1, 1),
                              configuration<2>("whole", true, 1, 1)};
  all[0].kernel.workspace_bytes = 100;
  char memory;
  GemmArgs args;
  CHECK(std::string(ladder::least_predicted(all, args)->name) == "whole");
  CHECK(std::string(ladder::least_predicted(all, args, true)->name) == "split");
  args.workspace = &memory;
  CHECK(std::string(ladder::least_predicted(all, args)->name) == "split");
  CHECK(std::string(ladder::least_predicted(all, args, false)->name) == "whole");
  all.pop_back();
  args.workspace = nullptr;
  CHECK(ladder::least_predicted(all, args) == nullptr);
}

TEST_CASE("registry: a workspace suits the rung that needs most") {
  CHECK(ladder::workspace_bytes(132) == 0);
  const Ending ending = in_child([] {
    const Registrar first("stages/05_wgmma.cu", "first", {named("only", true)});
    if (ladder::workspace_bytes(132) != 0) return 1;
    std::vector<Variant> some = {named("x", true), configuration<1>("y", true, 1, 1)};
    some[0].kernel.workspace_bytes = 100;
    some[1].kernel.workspace_bytes = 300;
    const Registrar second("stages/06_some.cu", "second", some);
    if (ladder::workspace_bytes(132) != ladder::WORKSPACE_COUNTER_BYTES + 132 * 300) return 2;
    some[1].kernel.workspace_bytes = 2000000000;  // of a chooser's own
    Variant chooser = ladder::chooser_among(
        "auto", "what", some, +[](const GemmArgs&) -> const Variant& { std::abort(); });
    const Registrar third("stages/07_auto.cu", "third", {chooser.as_result()});
    const size_t most = ladder::WORKSPACE_COUNTER_BYTES + size_t{132} * 2000000000;
    return ladder::workspace_bytes(132) == most ? 0 : 3;
  });
  CAPTURE(ending.stderr_text);
  CHECK(ending.exit_code == 0);
}

TEST_CASE("registry: a chooser is asked once about calls that are alike") {
  static int times_asked = 0;
  static const Variant any = named("any", true);
  Variant chooser{};
  chooser.chooser.choose = +[](const GemmArgs&) -> const Variant& {
    ++times_asked;
    return any;
  };
  const auto asks = [&](const GemmArgs& args) {
    const int before = times_asked;
    CHECK(&ladder::chosen(chooser, args) == &any);
    return times_asked > before;
  };
  GemmArgs args;
  args.m = args.n = args.k = args.lda = args.ldb = args.ldd = 8;
  CHECK(asks(args));
  CHECK_FALSE(asks(args));
  for (int GemmArgs::*number : {&GemmArgs::m, &GemmArgs::n, &GemmArgs::k, &GemmArgs::max_ctas}) {
    args.*number += 1;
    CHECK(asks(args));
  }
  for (long long GemmArgs::*ld : {&GemmArgs::lda, &GemmArgs::ldb, &GemmArgs::ldd}) {
    args.*ld += 8;
    CHECK(asks(args));
  }
  args.workspace = &args;
  CHECK(asks(args));
  args.d += 8;
  args.workspace = &times_asked;
  CHECK_FALSE(asks(args));
}

TEST_CASE("registry: a chooser takes the narrowest tile of its configurations, and is none") {
  std::vector<Variant> all = {configuration<2>("wide", true, 2, 2),
                              configuration<1>("narrow", true, 2, 1)};
  all[0].kernel.bn = 256;
  all[1].kernel.bn = 96;
  all[0].kernel.workspace_bytes = 100;
  const Variant chooser = ladder::chooser_among(
      "auto", "what", all, +[](const GemmArgs&) -> const Variant& { std::abort(); });
  CHECK(std::string(chooser.name) == "auto");
  CHECK(std::string(chooser.what) == "what");
  CHECK(chooser.chooses());
  CHECK(&chooser.kind() == &GemmArgs::kind());
  CHECK(std::string(chooser.rules().name) == "auto");
  CHECK(chooser.rules().bn == 96);
  CHECK(chooser.rules().cluster == 2);
  CHECK(chooser.rules().persistent);
  CHECK(chooser.chooser.workspace_bytes == 100);
  CHECK_FALSE(static_cast<bool>(chooser.predicted_us));
  CHECK_FALSE(chooser.configuration);
  CHECK(all[1].configuration);
}

TEST_CASE("rows of two kinds of problem are never measured together") {
  Variant other = named("other", true);
  other.kernel.launch = +[](const OtherArgs&) {};
  const std::vector<ladder::Stage> stages = {{1, "01_first", "an idea", {named("first", true)}},
                                             {2, "02_other", "an idea", {other}}};
  const std::vector<std::string> rows = {"1 first 8 8 8 burst", "2 other 8 8 8 burst"};
  CHECK(parse_bench_rows(rows, stages, ladder::Together::kind).size() == 2);
}

TEST_CASE("registry: a wrong registration is rejected") {
  const std::vector<Variant> good = {named("only", true)};
  rejected("stages/wgmma.cu", good, "stages/wgmma.cu is wrong: its name must be two digits");
  rejected("stages/5_wgmma.cu", good, "two digits");
  rejected("stages/00_nothing.cu", good, "two digits");
  rejected("stages/06_.cu", good, "two digits");
  rejected("stages/05_other.cu", good,
           "stages/05_other.cu is wrong: its number is taken by 05_wgmma");
  rejected("stages/06_none.cu", {named("x", false)}, "exactly one variant must be marked");
  rejected("stages/06_two.cu", {named("x", true), named("y", true)}, "not 2");
  Variant nothing = named("nothing", true);
  nothing.kernel.launch = {};
  rejected("stages/06_nothing.cu", {nothing}, "nothing must have either a kernel or a chooser");
  Variant empty = named("empty", true);
  empty.kernel.cluster_m = 0;
  rejected("stages/06_empty.cu", {empty}, "empty has clusters of no CTA");
  Variant other = named("other", false);
  other.kernel.launch = +[](const OtherArgs&) {};
  rejected("stages/06_kinds.cu", {named("x", true), other},
           "its variants solve two kinds of problem, bf16 and other; all variants of a rung take "
           "the same arguments");
  rejected("stages/06_same.cu", {named("x", true), named("x", false)}, "two variants are named x");
}
