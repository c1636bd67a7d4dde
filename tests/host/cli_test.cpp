// What the programs make of their command line and of benchmark rows. Rungs are made up: nothing
// here may depend on which are linked.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/host/error.h"
#include "common/host/options.h"
#include "common/host/symbols.h"

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
  CHECK(refusal({"--stage=2"}) == "--stage is 2 but the stages here are 0, 1, 5.");
  CHECK(contains(refusal({"--stage=-1"}), "the nearest that works is 0"));
  CHECK(refusal({"--stage=0", "--variant=best"}) == "");
  CHECK(contains(refusal({"--variant=best"}), "the variants here are small, large, bn128, bn256"));
  CHECK(contains(refusal({"--variant=bn256", "--stage=1"}), "the variants here are small, large"));
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
}

TEST_CASE("a refusal names the value, the rule and what was probably meant") {
  CHECK(refusal({"--variant=bn265"}) ==
        "--variant is 'bn265' but the variants here are small, large, bn128, bn256; did you mean "
        "bn256?");
  CHECK(contains(refusal({"--data=uniforms"}), "did you mean uniform?"));
  CHECK(contains(refusal({"--data=Normal"}), "did you mean normal?"));
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
  CHECK(contains(row_refusal("5 bn256 64 64 8 burst now"), "has 7 words"));
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
