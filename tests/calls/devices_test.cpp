// Two GPUs of one host: what is kept between calls, of a device, a kernel or a stream, is each device's
// own. Where there is one, both halves run on it.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/host/device.h"
#include "common/host/error.h"
#include "common/host/watchdog.h"
#include "common/host/where.h"
#include "tests/support/block_scaled_problem.h"
#include "tests/support/fused_problem.h"
#include "tests/support/grouped_problem.h"
#include "tests/support/mixed_problem.h"
#include "tests/support/problem.h"
#include "tests/support/typed_problem.h"

using ladder::check_cuda;
using ladder::Data;
using ladder::Shape;
using ladder::Stage;
using ladder::Variant;
using ladder_test::Expected;
using ladder_test::Problem;
using ladder_test::Stream;

namespace {

constexpr int HALVES = 2, REPETITIONS = 5;

void use(int device) {
  check_cuda(cudaSetDevice(device), "cudaSetDevice");
}

// A call, on the device that was current when it was made.
struct Launch {
  std::string stem, name;
  std::function<void()> run;
  std::function<void()> poison;  // D
  std::function<ladder::Verdict()> verify;
};

// Of one problem of each kind: a call of each variant that takes it.
class AllOfADevice {
 public:
  explicit AllOfADevice(int device)
      : device_(device),
        bf16_({333, 1111, 200}, Data::ints, ladder_test::PADDED, stream_.handle),
        expected_(bf16_.args),
        typed_(ladder_test::typed_shape(200, 520, 328, "bf16", "NN"), Data::ints,
               ladder_test::TIGHT, stream_.handle),
        scaled_(ladder_test::scaled_shape(200, 520, 384, "e4m3"), Data::ints,
                ladder_test::SCALED_TIGHT, stream_.handle),
        mixed_(4, {17, 520, 384}, Data::ints, ladder_test::TIGHT, stream_.handle),
        grouped_({LADDER_BF16, false, 300, 256, 320, {0, 100, 100, 300}}, Data::ints, false,
                 stream_.handle),
        fused_(ladder_test::fused_shape(200, 520, 328, "relu", "bf16"), Data::ints, {},
               ladder_test::TIGHT, stream_.handle) {
    ladder_test::for_each_variant([&](const Stage& stage, const Variant& variant) {
      add(
          stage, variant, bf16_.args, [this] { bf16_.d.poison(); },
          [this] { return expected_.verify(bf16_.args, true); });
    });
    add_all(ladder_test::typed_rungs(), typed_);
    add_all(ladder_test::scaled_rungs(), scaled_);
    add_all(ladder_test::mixed_rungs(), mixed_);
    add_all(ladder_test::grouped_rungs(), grouped_);
    add_all(ladder_test::fused_rungs(), fused_);
  }

  int device() const { return device_; }
  const std::vector<Launch>& launches() const { return launches_; }
  void wait() const { check_cuda(cudaStreamSynchronize(stream_.handle), "waiting for a stream"); }

 private:
  template <class OfAKind>
  void add_all(const std::vector<const Stage*>& rungs, OfAKind& problem) {
    for (const Stage* stage : rungs) {
      for (const Variant& variant : stage->variants) {
        add(
            *stage, variant, problem.args, [&problem] { problem.d.poison(); },
            [&problem] { return problem.verify(true); });
      }
    }
  }

  void add(const Stage& stage, const Variant& variant, const ladder::Call& call,
           const std::function<void()>& poison, const std::function<ladder::Verdict()>& verify) {
    if (!ladder::violations(variant, call, ladder::query_device()).empty()) return;
    launches_.push_back({stage.stem, stage.stem + "/" + variant.name,
                         [&variant, &call] { ladder::run(variant, call); }, poison, verify});
  }

  int device_;
  Stream stream_;
  Problem bf16_;
  Expected expected_;
  ladder_test::TypedProblem typed_;
  ladder_test::BlockScaledProblem scaled_;
  ladder_test::MixedProblem mixed_;
  ladder_test::GroupedProblem grouped_;
  ladder_test::FusedProblem fused_;
  std::vector<Launch> launches_;
};

}  // namespace

TEST_CASE("devices: two GPUs in turns by one thread, and at once by two, every variant exact") {
  if (ladder::on_machine()) return ladder_test::skip("the PTX machine is one GPU");
  int devices = 0;
  check_cuda(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  std::vector<std::unique_ptr<AllOfADevice>> all;
  for (int half = 0; half < HALVES; ++half) {
    const int device = half % devices;
    use(device);
    all.push_back(std::make_unique<AllOfADevice>(device));
  }
  const size_t count = all[0]->launches().size();
  REQUIRE(count == all[1]->launches().size());
  std::set<std::string> stems, all_stems;
  for (const Launch& launch : all[0]->launches()) stems.insert(launch.stem);
  for (const Stage& stage : ladder::stages()) all_stems.insert(stage.stem);
  CHECK(stems == all_stems);  // each rung has variants that take its problem
  const auto check_all = [&](size_t i, const std::function<void()>& launch) {
    for (const auto& one : all) {
      use(one->device());
      one->launches()[i].poison();
    }
    launch();
    for (const auto& one : all) {
      use(one->device());
      one->wait();
      const std::string where =
          one->launches()[i].name + " on device " + std::to_string(one->device());
      CAPTURE(where);
      const ladder::Verdict verdict = one->launches()[i].verify();
      CHECK_MESSAGE(verdict.ok(), verdict.describe());
    }
  };
  for (size_t i = 0; i < count; ++i) {
    const ladder::Watchdog watchdog(all[0]->launches()[i].name + ", on two devices");
    check_all(i, [&] {
      for (int repetition = 0; repetition < REPETITIONS; ++repetition) {
        for (const auto& one : all) {
          use(one->device());
          one->launches()[i].run();
        }
      }
    });
    check_all(i, [&] {
      std::string errors[HALVES];
      std::vector<std::thread> threads;
      for (int who = 0; who < HALVES; ++who) {
        threads.emplace_back([&, who] {
          try {
            use(all[who]->device());
            for (int repetition = 0; repetition < REPETITIONS; ++repetition) {
              all[who]->launches()[i].run();
            }
            all[who]->wait();
          } catch (const std::exception& error) {
            errors[who] = error.what();
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::string& error : errors) CHECK(error == "");
    });
  }
  use(0);
  ladder_test::note(std::to_string(count) + " variants, on " +
                    (devices < HALVES ? "one GPU" : "two GPUs"));
}
