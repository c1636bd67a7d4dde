// What a wait for groups of copies waits for, and what it leaves, where every copy is as late as it
// may be.
#include <doctest/doctest.h>

#include "tests/machine/schedules.h"

using namespace machine_test;

namespace {

// By one thread.
Program late(const std::string& body) {
  Program program;
  program.check = false;
  program.policy = Policy::lazy;
  program.block = {1, 1, 1};
  program.body = body;
  return program;
}

// A bulk store of a shared word that is `word`.
std::string stored(int word) {
  return "st.shared.u32 [%smem], " + std::to_string(word) +
         ";\nfence.proxy.async;\n"
         "cp.async.bulk.global.shared::cta.bulk_group [%out], [%smem], 16;\n"
         "cp.async.bulk.commit_group;\n";
}

}  // namespace

TEST_CASE("bulk groups: a source that changes before wait_group.read shows, lazily") {
  const std::string change = "st.shared.u32 [%smem], 2;";
  CHECK(results(late(stored(1) + "cp.async.bulk.wait_group.read 1;\n" + change), 4)[0] == 2);
  CHECK(results(late(stored(1) + "cp.async.bulk.wait_group.read 0;\n" + change), 4)[0] == 1);
}

TEST_CASE("bulk groups: behind wait_group.read a group is still to be written") {
  const std::string read = stored(7) + "cp.async.bulk.wait_group.read 0;\n";
  const std::string look = "ld.global.u32 %r1, [%out];\nst.global.u32 [%out+16], %r1;\n";
  CHECK(results(late(read + look), 5)[4] == 0);
  CHECK(results(late(read + "cp.async.bulk.wait_group 0;\n" + look), 5)[4] == 7);
}

TEST_CASE("cp.async: groups are waited for one after the other") {
  Buffer<uint32_t> in(4);
  for (uint32_t i = 0; i < 4; ++i) in[i] = 10 + i;
  const auto of_each = [](std::string text) {
    std::string all;
    for (int i = 0; i < 3; ++i) {
      const std::string left = replaced(text, "LEFT", std::to_string(2 - i));
      all +=
          replaced(replaced(left, "SLOT", std::to_string(64 * i)), "WORD", std::to_string(4 * i));
    }
    return all;
  };
  CHECK(results(late(of_each("cp.async.ca.shared.global [%smem+SLOT], [%in+WORD], 4;\n"
                             "cp.async.commit_group;\n") +
                     "cp.async.wait_group 3;\n" +
                     of_each("cp.async.wait_group LEFT;\nld.shared.u32 %r1, [%smem+SLOT];\n"
                             "st.global.u32 [%out+WORD], %r1;\n")),
                3, in.data()) == Words{10, 11, 12});
}
