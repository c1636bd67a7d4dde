// What fences and releases hand on, and how far.
#include <doctest/doctest.h>

#include "tests/machine/rig.h"

using namespace checker_test;

TEST_CASE("a proxy fence of one space orders nothing of the other") {
  for (const Proxy proxy : {Proxy::shared, Proxy::global, Proxy::all}) {
    Rig rig;
    rig.store(0, DATA, FULL, 16);
    rig.store(0, DATA + 512, FULL, 16);
    rig.proxy_fence(0, FULL, proxy);
    rig.barrier(ALL);
    CHECK((said([&] { rig.tma_store(1, DATA, 1); }) == "") == (proxy != Proxy::global));
  }
}

TEST_CASE("fence.mbarrier_init is of the thread's own inits") {
  for (const uint32_t by : {0u, 1u}) {
    Rig rig;
    rig.init_fence(0);
    rig.init(0, FULL_BARRIER);
    rig.init_fence(by);
    rig.barrier(ALL);
    CHECK((said([&] { rig.tma_load(1, DATA, FULL_BARRIER); }) == "") == (by == 0));
  }
}

TEST_CASE("a relaxed arrive at one's own mbarrier hands on what a fence of the CTA has released") {
  for (const bool fenced : {false, true}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.store(0, DATA, ONE);
    if (fenced) rig.fence(0, Order::acq_rel, Scope::cta);
    rig.arrive(0, FULL_BARRIER, ONE, false, Scope::cluster);
    rig.complete(FULL_BARRIER);
    rig.wait(1, FULL_BARRIER);
    CHECK((said([&] { rig.load(1, DATA, ONE); }) == "") == fenced);
  }
}

TEST_CASE("in shared memory a store over another's release hands nothing on") {
  for (const bool over : {false, true}) {
    Rig rig;
    rig.store(0, DATA, ONE);
    rig.strong(0, DATA + 1024, Access::write, Order::release);
    if (over) rig.strong(1, DATA + 1024, Access::write, Order::relaxed);
    rig.strong(2, DATA + 1024, Access::read, Order::acquire);
    CHECK((said([&] { rig.load(2, DATA, ONE); }) == "") == !over);
  }
}

TEST_CASE("in shared memory relaxed operations hand on what a fence has acquired, and no more") {
  for (const bool fenced : {false, true}) {
    Rig rig;
    const auto fence = [&rig](uint32_t i) { rig.fence(i, Order::acq_rel, Scope::cta, ONE); };
    rig.store(1, DATA + 512, ONE);
    fence(1);  // so that it has released something
    rig.store(0, DATA, ONE);
    rig.strong(0, DATA + 1024, Access::write, Order::release);
    rig.strong(1, DATA + 1024, Access::read, Order::relaxed);
    if (fenced) fence(1);
    rig.strong(1, DATA + 1028, Access::write, Order::relaxed);
    rig.strong(2, DATA + 1028, Access::read, Order::relaxed);
    fence(2);
    fence(2);
    CHECK((said([&] { rig.load(2, DATA, ONE); }) == "") == fenced);
  }
}

TEST_CASE("between clusters: a fence of less than the GPU acquires nothing") {
  alignas(4096) static uint32_t data[2048];
  for (const Scope scope : {Scope::cta, Scope::cluster, Scope::gpu}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 1, 0, shared), reader(1, 1, 5, shared);
    writer.global(0, data, Access::write, ONE);
    writer.global(0, data + 1024, Access::write, ONE, Order::release);
    reader.global(0, data + 1024, Access::read, ONE, Order::relaxed);
    reader.fence(0, Order::acq_rel, scope, ONE);
    CHECK((said([&] { reader.global(0, data, Access::read, ONE); }) == "") ==
          (scope == Scope::gpu));
  }
}

TEST_CASE("between clusters: relaxed operations hand on what a fence has acquired, and no more") {
  alignas(4096) static uint32_t data[2048];
  for (const bool fenced : {false, true}) {
    const auto shared = std::make_shared<Shared>();
    Rig first(1, 1, 0, shared), second(1, 1, 1, shared), third(1, 1, 2, shared);
    second.global(0, data + 512, Access::write, ONE);
    second.fence(0, Order::acq_rel, Scope::gpu, ONE);  // so that it has released something
    first.global(0, data, Access::write, ONE);
    first.global(0, data + 1024, Access::write, ONE, Order::release);
    second.global(0, data + 1024, Access::read, ONE, Order::relaxed);
    if (fenced) second.fence(0, Order::acq_rel, Scope::gpu, ONE);
    second.global(0, data + 1025, Access::atomic, ONE, Order::relaxed);
    third.global(0, data + 1025, Access::read, ONE, Order::relaxed);
    third.fence(0, Order::acq_rel, Scope::gpu, ONE);
    third.fence(0, Order::acq_rel, Scope::gpu, ONE);
    CHECK((said([&] { third.global(0, data, Access::read, ONE); }) == "") == fenced);
  }
}

TEST_CASE("between clusters: who has seen a relaxed write may write there plainly") {
  alignas(4096) static uint32_t data[2048];
  uint32_t* const flag = data + 1025;
  for (const Access counts : {Access::write, Access::atomic}) {
    for (const Order order : {Order::relaxed, Order::acquire}) {
      const auto shared = std::make_shared<Shared>();
      Rig writer(1, 1, 0, shared), reader(1, 4, 1, shared), other(1, 1, 2, shared);
      const auto count = [&] { writer.global(0, flag, counts, ONE, Order::relaxed); };
      const auto see = [&](Rig& rig) {
        rig.global(0, flag, Access::read, ONE, order);
        rig.checker().loaded(rig.warp(0));
      };
      const auto reset = [&](Rig& rig, uint32_t warp = 0) {
        return said([&] { rig.global(warp, flag, Access::write, ONE); });
      };
      see(reader);  // of what was there before
      writer.fence(0, Order::acq_rel, Scope::gpu, ONE);
      writer.global(0, data, Access::write, ONE);  // no fence releases it
      count();
      CHECK(contains(reset(reader), "Rule: global-race"));
      see(reader);
      CHECK(contains(reset(other), "Rule: global-race"));
      CHECK(contains(reset(reader, 1), "Rule: global-race"));
      CHECK(contains(said([&] { reader.global(0, data, Access::read, ONE); }), "global-race"));
      count();
      CHECK(contains(reset(reader), "Rule: global-race"));
      see(reader);
      writer.global(0, flag - 1, Access::write, ONE);  // its neighbour in 8 bytes
      reader.barrier(ALL);
      CHECK(reset(reader, 1) == "");
    }
  }
}

TEST_CASE("in shared memory, too, who has seen a relaxed write may write there plainly") {
  const uint32_t flag = DATA + 1028;
  for (const Access counts : {Access::write, Access::atomic}) {
    Rig rig;
    const auto count = [&] { rig.strong(0, flag, counts, Order::relaxed); };
    const auto see = [&](uint32_t i) { rig.strong(i, flag, Access::read, Order::relaxed); };
    const auto reset = [&](uint32_t i) { return said([&] { rig.store(i, flag, ONE); }); };
    rig.store(3, flag, ONE);
    rig.barrier(ALL);
    rig.store(0, DATA, ONE);
    rig.strong(0, flag - 4, Access::write, Order::relaxed);  // its neighbour in 8 bytes
    count();
    CHECK(contains(reset(1), "Rule: shared-race"));
    see(1);
    CHECK(contains(reset(2), "Rule: shared-race"));
    CHECK(contains(said([&] { rig.load(1, DATA, ONE); }), "Rule: shared-race"));
    CHECK(contains(said([&] { rig.store(1, flag - 4, ONE); }), "Rule: shared-race"));
    count();
    CHECK(contains(reset(1), "Rule: shared-race"));
    see(1);
    rig.barrier({1, 2});
    CHECK(reset(2) == "");
  }
}
