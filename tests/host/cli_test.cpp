// What the programs make of their command line and of benchmark rows. Rungs are made up: nothing
// here may depend on which are linked.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/host/error.h"
#include "common/host/options.h"
#include "common/host/symbols.h"
#include "common/host/text.h"
#include "common/host/where.h"

using namespace ladder;

namespace {

Variant variant(const char* name, bool result = false) {
  Variant made{};
  made.name = name;
  made.what = "a knob";
  made.kernel.launch = +[](const GemmArgs&) {};
  made.result = result;
  return made;
}

Variant without_tensor_cores(Variant variant) {
  variant.kernel.simt = true;
  return variant;
}

const std::vector<Stage>& rungs() {
  static const std::vector<Stage> made = {
      {0, "best", "an idea", {variant("best", true), variant("best_no_workspace")}},
      {0, "best", "an idea", {variant("best_other", true)}},
      {1, "01_first", "an idea", {variant("small"), without_tensor_cores(variant("large", true))}},
      {5, "05_fifth", "an idea", {variant("bn128"), variant("bn256", true)}}};
  return made;
}

Options parse(const std::vector<std::string>& arguments) {
  return parse_options(arguments, rungs());
}

// The sentence of the refusal, "" if there is none.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
  } catch (const Refused& error) {
    return error.what();
  }
  return "";
}

std::vector<size_t> sizes_of(const std::vector<std::vector<BenchRow>>& groups) {
  std::vector<size_t> sizes;
  for (const auto& group : groups) sizes.push_back(group.size());
  return sizes;
}

std::string row_refusal(const std::string& line) {
  try {
    parse_bench_rows({line}, rungs(), Together::rung);
  } catch (const Refused& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("options have the documented defaults") {
  const Options options = parse({});
  CHECK(options.mode == Options::Mode::run);
  CHECK(shape_of_run(options, rungs()[2]) == Shape{2048, 2048, 2048});
  CHECK(shape_of_run(options, rungs()[3]) == Shape{8192, 8192, 8192});
  CHECK(options.data == Data::normal);
  CHECK(options.seed == 1);
  CHECK(options.grid == 0);
  CHECK(options.workspace);
  CHECK(options.limits().max_ctas == 0);
  CHECK(options.limits().workspace);
  CHECK(chosen_variants(options, rungs()[3]).size() == 2);
}

TEST_CASE("every option is read") {
  const Options options = parse({"--m=100", "--n=3000", "--k=8", "--variant=bn128", "--data=ints",
                                 "--seed=0", "--grid=7", "--workspace=0", "--stage=5", "--check"});
  CHECK(options.shape == Shape{100, 3000, 8});
  CHECK(options.data == Data::ints);
  CHECK(options.seed == 0);
  CHECK(options.grid == 7);
  CHECK_FALSE(options.workspace);
  CHECK(options.limits().max_ctas == 7);
  CHECK_FALSE(options.limits().workspace);
  CHECK(options.stage == 5);
  CHECK(options.check_only);
  CHECK(chosen_variants(options, rungs()[2]).empty());
  REQUIRE(chosen_variants(options, rungs()[3]).size() == 1);
  CHECK(std::string(chosen_variants(options, rungs()[3])[0]->name) == "bn128");
  CHECK(shape_of_run(parse({"--n=64"}), rungs()[3]) == Shape{8192, 64, 8192});
  CHECK(parse({"--list"}).mode == Options::Mode::list);
  CHECK(parse({"--bench-rows"}).mode == Options::Mode::bench_rows);
  CHECK(parse({"--sweep-rows"}).mode == Options::Mode::sweep_rows);
  CHECK(parse({"--choices"}).mode == Options::Mode::choices);
  CHECK(parse({"--help"}).mode == Options::Mode::help);
}

TEST_CASE("an option that is given twice is refused") {
  CHECK(refusal({"--m=8", "--n=8", "--m=16"}) ==
        "--m is given more than once, as --m=16 too; give it once.");
  CHECK(contains(refusal({"--check", "--check"}), "--check is given more than once"));
}

TEST_CASE("beside rows, what a row says for itself is refused") {
  CHECK(refusal({"--bench-rows", "--m=4096"}) ==
        "--m stands beside --bench-rows, whose rows say what runs; beside it work --data, --seed, "
        "--grid, --workspace.");
  for (const char* const mode : {"--choices", "--bench-rows", "--sweep-rows", "--energy-rows"}) {
    for (const char* const option : {"--m=8", "--stage=1", "--variant=bn128", "--check"}) {
      CHECK(contains(refusal({option, mode}), std::string(" stands beside ") + mode));
    }
    CHECK(refusal({mode}) == "");
  }
  CHECK(refusal({"--sweep-rows", "--data=ints", "--seed=2", "--grid=8", "--workspace=0"}) == "");
  CHECK(refusal({"--choices", "--grid=8", "--workspace=0"}) == "");
  CHECK(contains(refusal({"--choices", "--seed=2"}), "beside it work --grid, --workspace."));
  CHECK(contains(refusal({"--energy-rows", "--data=ints"}), "beside it work --seed."));
  CHECK(refusal({"--list", "--m=8"}) == "");  // as make ptx-N has it checked
}

TEST_CASE("the stages that are run are all rungs, or what --stage says") {
  const auto numbers = [](const std::vector<std::string>& arguments) {
    std::vector<int> found;
    for (const Stage* stage : chosen_stages(parse(arguments), rungs())) {
      found.push_back(stage->number);
    }
    return found;
  };
  CHECK(numbers({}) == std::vector<int>{1, 5});
  CHECK(numbers({"--stage=5"}) == std::vector<int>{5});
  CHECK(numbers({"--stage=0"}) == std::vector<int>{0, 0});
  CHECK(refusal({"--stage=2"}) ==
        "--stage is 2 but the stages here are 0, 1, 5; the nearest that works is 1.");
  for (const char* const number : {"6", "99999999999"}) {
    CHECK(refusal({std::string("--stage=") + number}) ==
          std::string("--stage is ") + number +
              " but must be a whole number from 0 to 5; the nearest that works is 5.");
  }
  CHECK(contains(refusal({"--stage=-1"}), "the nearest that works is 0"));
  CHECK(refusal({"--stage=0", "--variant=best"}) == "");
  CHECK(contains(refusal({"--variant=best"}), "The variants here are small, large, bn128, bn256."));
  CHECK(contains(refusal({"--variant=bn256", "--stage=1"}), "The variants here are small, large."));
}

TEST_CASE("without a workspace, variants that need one are left out unless they are named") {
  Stage stage{7, "07_seventh", "an idea", {variant("plain", true), variant("split")}};
  stage.variants[1].kernel.workspace_bytes = 8;
  const auto names = [&stage](bool workspace, const char* name) {
    Options options;
    options.workspace = workspace;
    options.variant = name;
    std::string found;
    for (const Variant* each : chosen_variants(options, stage))
      found += std::string(each->name) + " ";
    return found;
  };
  CHECK(names(true, "") == "plain split ");
  CHECK(names(false, "") == "plain ");
  CHECK(names(false, "split") == "split ");
}

// A kind of problem with parameters.
struct FlavouredArgs : Call {
  int flavour = 0;
  static const ProblemKind& kind();
};
struct FlavouredKind : ProblemKind {
  const char* name() const override { return "flavoured"; }
  const char* formula() const override { return "nothing"; }
  std::vector<Parameter> parameters() const override {
    return {{"flavour", {"plain", "sweet", "sour"}}, {"size", {"one", "two"}}};
  }
  std::string violations(const GridRules&, const Call&) const override { return ""; }
  bool needs_kernel(const Call&) const override { return true; }
  void run_without_kernel(const Call&) const override {}
  std::shared_ptr<Call> sizes_of(const Shape& shape) const override {
    const auto args = std::make_shared<FlavouredArgs>();
    args->flavour = shape.parameters[0];
    return args;
  }
  Traits traits(const Call&) const override { return {}; }
  std::unique_ptr<Problem> problem(const Shape&, Data, uint64_t, const DeviceInfo&) const override {
    return nullptr;
  }
};
const ProblemKind& FlavouredArgs::kind() {
  static const FlavouredKind kind;
  return kind;
}

// Its variants: one for all calls, one for sour ones, and a configuration of the first.
const std::vector<Stage>& rungs_with_flavours() {
  static const std::vector<Stage> made = [] {
    std::vector<Stage> all = rungs();
    Variant any{}, sour{};
    any.name = "any";
    any.kernel.launch = +[](const FlavouredArgs&) {};
    any.takes = +[](const FlavouredArgs&) { return true; };
    any.result = true;
    sour = any;
    sour.name = "only_sour";
    sour.takes = +[](const FlavouredArgs& args) { return args.flavour == 2; };
    sour.result = false;
    Variant part = any;
    part.name = "part";
    part.configuration = true;
    part.result = false;
    all.push_back({7, "07_flavoured", "an idea", {any, sour, part}});
    return all;
  }();
  return made;
}

TEST_CASE("parameters of a kind of problem are options, with the values that it has") {
  const auto& stages = rungs_with_flavours();
  const auto refused = [&](const std::vector<std::string>& arguments) -> std::string {
    try {
      parse_options(arguments, stages);
    } catch (const Refused& error) {
      return error.what();
    }
    return "";
  };
  const Options options = parse_options({"--size=two", "--flavour=sour", "--m=3"}, stages);
  const Shape shape = shape_of_run(options, stages.back());
  CHECK(shape == Shape{3, 8192, 8192, {2, 1}});
  CHECK(shape != Shape{3, 8192, 8192});
  CHECK(parameters_text(FlavouredArgs::kind(), shape) == "flavour=sour,size=two");
  CHECK(shape_of_run(options, stages[3]) == Shape{3, 8192, 8192});  // which has none
  CHECK(parameters_text(FlavouredArgs::kind(), Shape{1, 2, 3, {0, 1}}, false) == "size=two");
  CHECK(parameters_text(FlavouredArgs::kind(), Shape{1, 2, 3}, false) == "");
  CHECK(parameters_text(GemmArgs::kind(), shape) == "");
  CHECK(refused({"--flavour=swet"}) ==
        "--flavour is 'swet' but must be one of plain, sweet, sour; did you mean sweet?");
  CHECK(contains(refused({"--flavour"}), "--flavour needs a value"));
  CHECK(refused({"--stage=5", "--flavour=sour"}) ==
        "--flavour is 'sour' but no rung that is asked for has it; those have none such; it works "
        "with 07_flavoured.");
  CHECK(refused({"--stage=5", "--flavour=bitter"}) ==
        "--flavour is 'bitter' but no rung that is asked for has it; those have none such; it has "
        "other values in 07_flavoured.");
  CHECK(contains(refused({"--flavour=SOUR"}), "did you mean sour?"));
  CHECK(contains(refused({"--flavour=sour,sweet"}), "did you mean sour?"));
  CHECK(contains(refused({"--flavour=pla"}), "did you mean plain?"));
  CHECK(contains(refused({"--flavor=sour"}), "did you mean --flavour?"));
  CHECK(contains(refusal({"--flavour=sour"}), "There is no option"));
  CHECK(refused({"--flavour=abcdefg"}) ==
        "--flavour is 'abcdefg' but must be one of plain, sweet, sour; try plain.");
  CHECK(refused({"--act=relu"}) ==
        "--act is 'relu' but no rung that is linked in has it; try make stage-17.");
  CHECK(refused({"--xyzxyz"}) == "There is no option '--xyzxyz'; --help lists them.");
}

TEST_CASE("variants that take no such parameters, and configurations, are left out unless named") {
  const auto& stages = rungs_with_flavours();
  const auto names = [&](const std::vector<std::string>& arguments) {
    std::string found;
    for (const Variant* each : chosen_variants(parse_options(arguments, stages), stages.back())) {
      found += std::string(each->name) + " ";
    }
    return found;
  };
  CHECK(names({}) == "any ");
  CHECK(names({"--flavour=sour"}) == "any only_sour ");
  CHECK(names({"--variant=only_sour"}) == "only_sour ");
  CHECK(names({"--variant=part"}) == "part ");
}

TEST_CASE("a benchmark row has its kind's parameters behind it") {
  const auto& stages = rungs_with_flavours();
  const std::string sour = "7 any 1 2 3 burst flavour=sour";
  const auto groups = parse_bench_rows({sour, sour + ",size=one", "7 any 1 2 3 burst size=two"},
                                       stages, Together::rung);
  REQUIRE(groups.size() == 2);
  REQUIRE(groups[0].size() == 2);
  CHECK(groups[0][0].text() == sour);  // those that are not the default, in the kind's order
  CHECK(groups[0][1].text() == sour);
  CHECK(groups[1][0].text() == "7 any 1 2 3 burst size=two");
  const auto refused = [&](const std::string& line) -> std::string {
    try {
      parse_bench_rows({line}, stages, Together::rung);
    } catch (const Refused& error) {
      return error.what();
    }
    return "";
  };
  CHECK(contains(refused("7 any 1 2 3 burst flavour"), "'flavour' must be name=value"));
  CHECK(contains(refused("7 any 1 2 3 burst size=one,size=two"),
                 "'size' is given more than once, as size=two too; give it once."));
  CHECK(contains(refused("7 any 1 2 3 burst colour=red"),
                 "rung 7 has no 'colour', only flavour, size"));
  CHECK(
      contains(refused("5 bn128 1 2 3 burst flavour=sour"), "rung 5 has no 'flavour', only sizes"));
  CHECK(contains(refused("7 any 1 2 3 burst size=three"), "must be one of one, two"));
  CHECK(contains(refused("7 any 1 2 3 burst size=two more"), "has 8 words"));
}

TEST_CASE("numbers are whole, decimal and in range") {
  for (const std::string bad : {"", "8k", " 8", "8 ", "+8", "0x10", "8.0", "1e3", "-8", "0",
                                "1073741825", "99999999999999999999999"}) {
    CAPTURE(bad);
    const std::string sentence = refusal({"--m=" + bad});
    CHECK(contains(sentence, "--m"));
    CHECK(contains(sentence, bad));
    CHECK(contains(sentence, "from 1 to 1073741824"));
  }
  CHECK(contains(refusal({"--m=-8"}), "the nearest that works is 1."));
  CHECK(contains(refusal({"--k=2000000000"}), "the nearest that works is 1073741824."));
  CHECK(refusal({"--m=1073741824"}) == "");
  CHECK(refusal({"--seed=9223372036854775807"}) == "");
  CHECK(refusal({"--seed=9223372036854775808"}) != "");
  CHECK(refusal({"--grid=-1"}) != "");
  CHECK(refusal({"--seed=x"}) == "--seed is 'x' but must be a whole number, 0 or more; try 1.");
  CHECK(refusal({"--grid=x"}) == "--grid is 'x' but must be a whole number, 0 or more; try 132.");
  CHECK(contains(refusal({"--m=x"}), "try 8192."));
}

TEST_CASE("a refusal names the value, the rule and what was probably meant") {
  CHECK(refusal({"--variant=bn265"}) ==
        "--variant is 'bn265'; did you mean bn256? The variants here are small, large, bn128, "
        "bn256.");
  CHECK(contains(refusal({"--variant="}), "--variant is '' but must be a variant's name"));
  CHECK(contains(refusal({"--data=uniforms"}), "did you mean uniform?"));
  CHECK(suggestion("bn256_lat", {"bn256", "bn256_late"}) == "did you mean bn256_late?");
  CHECK(suggestion("none", {"bias", "c", "nothing"}) == "did you mean nothing?");
  CHECK(suggestion("swish", {"none", "relu", "silu"}) == "did you mean silu?");
  CHECK(suggestion("swish", {"none", "relu"}) == "try none.");
  CHECK(contains(refusal({"--data=Normal"}), "did you mean normal?"));
  CHECK(parse({"--data=index"}).data == Data::index);
  CHECK(contains(refusal({"--data=places"}), "normal, uniform, ints, zeros, index"));
  CHECK(contains(refusal({"--sed=1"}), "There is no option '--sed=1'; did you mean --seed?"));
  CHECK(contains(refusal({"8192"}), "There is no option '8192'"));
  CHECK(contains(refusal({"--m"}), "--m needs a value"));
  CHECK(contains(refusal({"--list=1"}), "--list takes no value"));
  CHECK(contains(refusal({"--sweep-rows=1"}), "--sweep-rows takes no value"));
  CHECK(contains(refusal({"--list", "--help"}), "give one"));
  CHECK(contains(refusal({"--choices", "--sweep-rows"}), "--choices, --bench-rows, --sweep-rows"));
}

TEST_CASE("benchmark rows of one rung, shape and regime are measured together") {
  const auto groups =
      parse_bench_rows({"5 bn128 64 64 8 burst", "5 bn256 64 64 8 burst",
                        "5 bn128 64 64 8 sustained", "5 bn128 64 64 16 sustained",
                        "1 large 64 64 16 sustained", "", "1 small 64 64 16 sustained", ""},
                       rungs(), Together::rung);
  CHECK(sizes_of(groups) == std::vector<size_t>{2, 1, 1, 1, 1});
  CHECK(groups[0][1].text() == "5 bn256 64 64 8 burst");
  CHECK(groups[0][1].stage == &rungs()[3]);
  CHECK(groups[2][0].shape == Shape{64, 64, 16});
  CHECK(groups[2][0].regime == Regime::sustained);
  CHECK(parse_bench_rows({}, rungs(), Together::rung).empty());
  const auto best = parse_bench_rows({"0 best_other 8 8 8 burst"}, rungs(), Together::rung);
  CHECK(best[0][0].stage == &rungs()[1]);
}

TEST_CASE("a sweep's rows are measured together with those of other rungs of their kind") {
  const auto groups = parse_bench_rows({"5 bn128 64 64 8 burst", "1 large 64 64 8 burst",
                                        "5 bn128 64 64 16 burst", "", "1 large 64 64 16 burst"},
                                       rungs(), Together::kind);
  CHECK(sizes_of(groups) == std::vector<size_t>{2, 1, 1});
}

TEST_CASE("a chooser sees the sizes of a row, and leading dimensions that they allow") {
  const auto call = GemmArgs::kind().sizes_of({5, 17, 100});
  const GemmArgs& args = static_cast<const GemmArgs&>(*call);
  CHECK(args.m == 5);
  CHECK(args.n == 17);
  CHECK(args.k == 100);
  CHECK(args.lda == 104);
  CHECK(args.ldb == 104);
  CHECK(args.ldd == 24);
  CHECK(args.max_ctas == 0);
  CHECK(args.workspace == nullptr);
}

TEST_CASE("a benchmark row that is none is refused with its text") {
  CHECK(contains(row_refusal("5 bn256 64 64 burst"), "has 5 words"));
  CHECK(contains(row_refusal("5 bn256 64 64 8 burst now"), "'now' must be name=value"));
  CHECK(contains(row_refusal("5 bn256 64 64 8 burst now then"), "has 8 words"));
  CHECK(contains(row_refusal("4 bn256 64 64 8 burst"), "the rungs here are 0, 1, 5"));
  CHECK(contains(row_refusal("0 bst 64 64 8 burst"), "did you mean best?"));
  CHECK(contains(row_refusal("5 bn25 64 64 8 burst"), "did you mean bn256?"));
  CHECK(contains(row_refusal("5 bn256 64 0 8 burst"), "the nearest that works is 1"));
  CHECK(contains(row_refusal("5 bn256 64 64 8 bursts"), "must be burst or sustained"));
  CHECK(contains(row_refusal("5 bn256 64 64 8 bursts"), "Row '5 bn256 64 64 8 bursts'"));
}

TEST_CASE("a kernel's name is that of its function without internal linkage") {
  CHECK(without_internal_linkage("_ZN5wgmmaL4gemmI4TileEEvPK1Lx") ==
        "_ZN5wgmma4gemmI4TileEEvPK1Lx");
  CHECK(without_internal_linkage("_ZN5wgmma4gemmI4TileEEvPK1Lx") == "_ZN5wgmma4gemmI4TileEEvPK1Lx");
  CHECK(without_internal_linkage("_ZL4gemmi") == "_Z4gemmi");
  CHECK(without_internal_linkage("_Z4gemmi") == "_Z4gemmi");
  CHECK(without_internal_linkage("gemm") == "gemm");
}

extern "C" void function_with_a_plain_name() {}

TEST_CASE("functions of this program have names, others do not") {
  CHECK(kernel_name(reinterpret_cast<const void*>(&function_with_a_plain_name)) ==
        "function_with_a_plain_name");
  const int not_a_function = 0;
  CHECK_THROWS_AS(kernel_name(&not_a_function), std::runtime_error);
}

TEST_CASE("a duration is told in the unit in which it is a small number") {
  CHECK(duration_text(5) == "5 s");
  CHECK(duration_text(99) == "99 s");
  CHECK(duration_text(100) == "2 minutes");
  CHECK(duration_text(3 * 3600) == "3 hours");
  CHECK(duration_text(3 * 86400) == "3 days");
  CHECK(duration_text(11111111.0 * 60) == "21 years");
}

TEST_CASE("what takes the machine long is said of a variant, or of all of them") {
  const Stage& stage = rungs().back();
  const auto said = [&](const Shape& shape, size_t variants) {
    return duration_line(stage, shape, variants);
  };
  CHECK(said({4096, 4096, 4096}, 1) == "This takes the PTX machine about 46 s a variant.\n");
  CHECK(said({8, 7168, 2048}, 61) ==  // tiles have more rows
        "This takes the PTX machine about 3 s a variant, 3 minutes for all 61.\n");
  CHECK(said({8, 7168, 2048}, 8) == "");
  CHECK(said(MACHINE_SHAPE, 64) == "");
}
