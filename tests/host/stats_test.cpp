// The statistics that measurements are reported by, and the text they are printed as.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "common/host/stats.h"
#include "common/host/text.h"

using namespace ladder;

TEST_CASE("quantiles interpolate between the samples next to them") {
  const std::vector<double> samples = {5, 1, 4, 2, 3};
  CHECK(quantile(samples, 0) == 1);
  CHECK(quantile(samples, 1) == 5);
  CHECK(median(samples) == 3);
  CHECK(quantile(samples, 0.1) == doctest::Approx(1.4));
  CHECK(quantile(samples, 0.9) == doctest::Approx(4.6));
  CHECK(median({1, 2}) == doctest::Approx(1.5));
  CHECK(quantile({7}, 0.9) == 7);
  CHECK(std::isnan(median({})));
  CHECK(std::isnan(median({1, std::nan(""), 2})));
}

TEST_CASE("the paired ratio cancels what both share in a round") {
  // The chip is half as fast in round 1; the contestant is always at 90 %.
  CHECK(paired_ratio({90, 45, 81}, {100, 50, 90}) == doctest::Approx(0.9));
  // Unpaired, the ratio of the medians would be 1.
  CHECK(paired_ratio({100, 50, 60}, {50, 100, 60}) == doctest::Approx(1.0));
  CHECK(paired_ratio({100, 120, 60}, {50, 100, 60}) == doctest::Approx(1.2));
  CHECK(std::isnan(paired_ratio({}, {})));
}

TEST_CASE("the order of contestants is reversed every round") {
  CHECK(order_of_round(3, 0) == std::vector<int>{0, 1, 2});
  CHECK(order_of_round(3, 1) == std::vector<int>{2, 1, 0});
  CHECK(order_of_round(3, 2) == order_of_round(3, 0));
  CHECK(order_of_round(0, 1).empty());
}

TEST_CASE("a JSON object is one line of valid JSON") {
  const JsonObject inner = JsonObject().add("sms", 132).add("bytes", 1LL << 40);
  const std::string line = JsonObject()
                               .add("text", "a \"b\" \\ \n")
                               .add("number", 785.125)
                               .add("nan", std::nan(""))
                               .add("infinite", std::numeric_limits<double>::infinity())
                               .add("flag", true)
                               .add("rows", std::vector<std::string>{"x", "y"})
                               .add("env", inner)
                               .add_null("watts")
                               .line();
  CHECK(line ==
        R"({"text": "a \"b\" \\ \u000a", "number": 785.125, "nan": null, "infinite": null, )"
        R"("flag": true, "rows": ["x", "y"], "env": {"sms": 132, "bytes": 1099511627776}, )"
        R"("watts": null})");
  CHECK(JsonObject().line() == "{}");
}

TEST_CASE("the columns of a table stand under each other, numbers flush right") {
  CHECK(table({{"variant", "us", "check"}, {"64x64", "9.5", "ok"}, {"größer", "-", "FAIL: x"}}) ==
        "variant   us  check\n"
        "-------  ---  -------\n"
        "64x64    9.5  ok\n"
        "größer     -  FAIL: x\n");
}

TEST_CASE("the nearest word has the fewest edits") {
  CHECK(nearest("unifrom", {"normal", "uniform", "ints", "zeros"}) == "uniform");
  CHECK(nearest("bn25", {"bn64", "bn128", "bn256"}) == "bn256");
  CHECK(nearest("x", {}) == "");
}
