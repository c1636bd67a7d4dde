// Power from a counter that grows in steps, made up here so that the answer is known.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "common/host/nvml.h"

using namespace ladder;

namespace {

// A board that draws what `watts` says and whose counter is refreshed every `refresh` seconds; a
// reading takes no time, a pause 0.3 ms.
struct Board {
  double refresh = 0.1;
  std::function<double(double)> joules_at = [](double s) { return 300 * s; };
  double s = 12.34;

  EnergyCounter counter() {
    return {[this] { return joules_at(std::floor(s / refresh) * refresh); }, [this] { return s; },
            [this] { s += 0.0003; }};
  }
};

}  // namespace

TEST_CASE("the refresh period of an energy counter is found") {
  for (const double refresh : {0.02, 0.1}) {
    Board board{.refresh = refresh};
    CHECK(refresh_s(board.counter()) == doctest::Approx(refresh).epsilon(0.03));
  }
}

TEST_CASE("a window has at least 20 steps and half a second") {
  CHECK(window_s(0.1) == doctest::Approx(2));
  CHECK(window_s(0.001) == doctest::Approx(0.5));
}

TEST_CASE("mean power counts whole steps") {
  Board board;
  const double begin_s = board.s;
  // A part of a step at either end would be 5 % of 20; a pause is 0.015 %.
  CHECK(mean_watts(board.counter(), 2) == doctest::Approx(300).epsilon(0.0005));
  CHECK(board.s - begin_s >= 2);
  CHECK(board.s - begin_s < 2.3);
}

TEST_CASE("mean power is of the window and not of what came before") {
  Board board;
  board.joules_at = [](double s) { return s < 12.34 ? 1000 * s : 12340 + 200 * (s - 12.34); };
  const EnergyCounter counter = board.counter();
  while (board.s < 12.5) counter.pause();  // a step that is half before the change is over
  CHECK(mean_watts(counter, 2) == doctest::Approx(200).epsilon(0.0005));
}

TEST_CASE("a counter that stands still is refused") {
  Board board;
  board.joules_at = [](double) { return 7.0; };
  CHECK_THROWS_WITH_AS(refresh_s(board.counter()),
                       "The board's energy counter has stood still for 2 s.", NoEnergy);
}

TEST_CASE("without NVML the reason is said") {
  setenv("LADDER_NVML", "/no/such/library.so", 1);
  CHECK_THROWS_WITH_AS(board_energy("0000:3b:00.0"),
                       "NVML cannot be loaded from /no/such/library.so.", NoEnergy);
  unsetenv("LADDER_NVML");
}
