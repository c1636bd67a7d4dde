// What a launch asks for.
#include <doctest/doctest.h>

#include "common/host/launch.h"

TEST_CASE("launch: an early start is asked for, but not where SMs are left to other work") {
  ladder::Call call;
  const auto starts_early = [&](bool early) {
    const ladder::Launch launch(66, 256, 1024, 1, early, call);
    return launch.attributes[0].val.programmaticStreamSerializationAllowed != 0;
  };
  CHECK(starts_early(true));
  CHECK_FALSE(starts_early(false));
  call.max_ctas = 66;
  CHECK(starts_early(true));
  call.leaves_sms = true;
  CHECK_FALSE(starts_early(true));
}

TEST_CASE("launch: a cluster of one is not asked for") {
  const ladder::Call call;
  CHECK(ladder::Launch(4, 128, 0, 1, false, call).config.numAttrs == 1);
  const ladder::Launch two(4, 128, 0, 2, false, call);
  CHECK(two.config.numAttrs == 2);
  CHECK(two.attributes[1].val.clusterDim.x == 2);
}
