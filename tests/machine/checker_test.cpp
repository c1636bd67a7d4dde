// The rules of the happens-before checker: each one violated, and kept.
#include <doctest/doctest.h>

#include "tests/machine/rig.h"

using namespace checker_test;

TEST_CASE("of other clusters all lanes know only what each of them knows") {
  const auto told = [](uint64_t cluster, uint32_t clock) {
    auto what = std::make_shared<Knowledge>();
    raise(what->views[GENERIC], 0, clock);
    Knowledge known;
    known.others = std::make_shared<Others>(Others{{cluster, what}});
    return known;
  };
  Knowledge least = told(1, 5);
  least.meet(told(2, 5));
  CHECK(least.of_cluster(1, false) == nullptr);
  CHECK(least.of_cluster(2, false) == nullptr);
  least = told(1, 5);
  least.meet(told(1, 3));
  CHECK(clock_of(least.of_cluster(1, false)->views[GENERIC], 0) == 3);
}

TEST_CASE("a load of another warp's store needs a barrier") {
  for (const bool ordered : {false, true}) {
    Rig rig;
    rig.store(0, DATA);
    if (ordered) rig.barrier(ALL);
    const std::string report = said([&] { rig.load(1, DATA); });
    CHECK((report == "") == ordered);
    if (ordered) continue;
    CHECK(contains(report, "ld.shared reads shared 0x400 (byte 0 of CTA (0,0,0)"));
    CHECK(contains(report, "earlier: warp 0 of CTA (0,0,0), which writes it by st.shared"));
    CHECK(contains(report, "later:   warp 1 of CTA (0,0,0), which reads it by ld.shared"));
    CHECK(contains(report, "What would order them: bar.sync"));
  }
}

TEST_CASE("a store over another warp's load needs a barrier") {
  for (const bool ordered : {false, true}) {
    Rig rig;
    rig.store(0, DATA);
    rig.barrier(ALL);
    rig.load(1, DATA + 64, 0xf);
    if (ordered) rig.barrier(ALL);
    const std::string report = said([&] { rig.store(0, DATA); });
    CHECK((report == "") == ordered);
  }
}

TEST_CASE("only bytes that both touch are a race") {
  Rig rig;
  rig.store(0, DATA, ONE);
  CHECK(said([&] { rig.store(1, DATA + 4, ONE); }) == "");
  CHECK(said([&] { rig.load(1, DATA + 4, ONE); }) == "");
  CHECK(contains(said([&] { rig.load(2, DATA + 4, ONE); }), "which st.shared has written"));
  CHECK(said([&] { rig.store(0, DATA, ONE, 2); }) == "");
}

TEST_CASE("an atomic of who gave its place a first value does not order that for the others") {
  for (const uint32_t bytes : {4u, 8u}) {
    for (const bool ordered : {false, true}) {
      Rig rig;
      rig.store(0, DATA, ONE, bytes);
      if (ordered) rig.barrier(ALL);
      rig.strong(0, DATA, Access::atomic, Order::relaxed);
      const std::string report = said([&] { rig.strong(1, DATA, Access::atomic, Order::relaxed); });
      CHECK((report == "") == ordered);
      if (!ordered)
        CHECK(contains(report, "earlier: warp 0 of CTA (0,0,0), which writes it by st"));
      rig.strong(0, DATA, Access::atomic, Order::relaxed);
      rig.store(0, DATA + 4, ONE);
      CHECK((said([&] { rig.strong(2, DATA, Access::atomic, Order::relaxed); }) == "") == ordered);
    }
  }
}

TEST_CASE("what a write leaves of another to the same 8 bytes is kept: a flag behind its data") {
  for (const bool by_another : {false, true}) {
    for (const bool ordered : {false, true}) {
      Rig rig;
      rig.store(0, DATA, ONE);
      by_another ? rig.store(2, DATA + 4, ONE)
                 : rig.strong(0, DATA + 4, Access::write, Order::relaxed);
      if (ordered) rig.barrier(ALL);
      const std::string report = said([&] { rig.load(1, DATA, ONE); });
      CHECK((report == "") == ordered);
      if (!ordered) CHECK(contains(report, "earlier: warp 0 of CTA (0,0,0), which writes it"));
    }
  }
  Rig rig;  // until it is overwritten
  rig.store(0, DATA, ONE);
  rig.store(2, DATA + 4, ONE);
  rig.barrier({0, 1});
  rig.store(1, DATA, ONE);
  CHECK(said([&] { rig.load(1, DATA, ONE); }) == "");
  CHECK(contains(said([&] { rig.store(1, DATA + 4, ONE); }), "earlier: warp 2"));

  alignas(4096) static uint32_t data[2];
  for (const Order order : {Order::relaxed, Order::release}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 1, 0, shared), reader(1, 1, 5, shared);
    writer.global(0, data, Access::write, ONE);
    writer.global(0, data + 1, Access::write, ONE, order);
    reader.global(0, data + 1, Access::read, ONE, Order::acquire);
    const std::string report = said([&] { reader.global(0, data, Access::read, ONE); });
    CHECK((report == "") == (order == Order::release));
  }
}

TEST_CASE("what a lane read before the lanes met is over, whatever it has read since") {
  for (const bool met : {false, true}) {
    Rig rig;
    rig.store(0, DATA, FULL, 16);
    rig.sync_lanes(0);
    rig.load(0, DATA + 64, ONE);
    if (met) rig.sync_lanes(0);
    rig.load(0, DATA + 256, ONE);
    CHECK((said([&] { rig.store(0, DATA + 60, 2); }) == "") == met);
  }
}

TEST_CASE("another barrier, or another warp's, orders nothing") {
  Rig rig;
  rig.store(0, DATA);
  rig.barrier({0, 1}, 1);
  rig.barrier({2, 3}, 2);
  CHECK(said([&] { rig.load(1, DATA); }) == "");
  CHECK(contains(said([&] { rig.load(2, DATA); }), "bar.sync"));
}

TEST_CASE("what is read has been written") {
  for (const bool later : {false, true}) {
    Rig rig(1, 1);
    rig.store(0, DATA, FULL >> 1);
    CHECK(said([&] { rig.load(0, DATA); }) == "");
    const std::string report = said([&] { later ? rig.store(0, DATA) : rig.exit_warp(0, true); });
    CHECK(contains(report, "ld.shared reads shared 0x47c (byte 124"));
    CHECK(contains(report, "which nothing has written"));
  }
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.load(1, DATA);
  const std::string report = said([&] { rig.tma_load(0, DATA, FULL_BARRIER); });
  CHECK(contains(report, "ld.shared reads shared 0x400 (byte 0 of CTA (0,0,0)"));
  CHECK(contains(report, "before cp.async.bulk.tensor.2d.shared writes it"));
  CHECK(contains(report, "mbarrier.try_wait by warp 1"));
}

TEST_CASE("an arrive and a wait on an mbarrier order") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.store(0, DATA);
  rig.arrive(0, FULL_BARRIER, FULL);
  rig.complete(FULL_BARRIER);
  rig.wait(1, FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA); }) == "");
  CHECK(contains(said([&] { rig.load(2, DATA); }), "mbarrier.try_wait"));
}

TEST_CASE("one lane's arrive releases what the warp did before bar.warp.sync, or it did itself") {
  for (const bool synced : {false, true}) {
    Rig rig;
    rig.set_up({EMPTY_BARRIER}, ALL);
    rig.store(0, DATA);
    rig.barrier(ALL);
    rig.load(1, DATA);
    if (synced) rig.sync_lanes(1);
    rig.arrive(1, EMPTY_BARRIER);
    rig.complete(EMPTY_BARRIER);
    rig.wait(0, EMPTY_BARRIER);
    CHECK(said([&] { rig.store(0, DATA, ONE); }) == "");
    const std::string report = said([&] { rig.store(0, DATA); });
    CHECK((report == "") == synced);
    if (!synced) CHECK(contains(report, "bar.warp.sync (__syncwarp) in warp 1"));
  }
}

TEST_CASE("every lane's own mbarrier releases what that lane stored") {
  for (const uint32_t bytes : {4u, 16u}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.store(0, DATA, FULL, bytes);
    rig.arrive(0, FULL_BARRIER, 1u << 5);
    rig.complete(FULL_BARRIER);
    rig.wait(1, FULL_BARRIER);
    CHECK(said([&] { rig.load(1, DATA, 1u << 5, bytes); }) == "");
    CHECK(said([&] { rig.load(1, DATA, 1u << 4, bytes); }) != "");
    CHECK(said([&] { rig.load(1, DATA, 3u << 5, bytes); }) != "");
  }
}

TEST_CASE("wgmma.fence ends the loads of all lanes before it") {
  Rig rig;
  rig.set_up({EMPTY_BARRIER}, ALL);
  rig.store(0, DATA);
  rig.barrier(ALL);
  rig.load(1, DATA);
  rig.wgmma_fence(1);
  rig.arrive(1, EMPTY_BARRIER);
  rig.complete(EMPTY_BARRIER);
  rig.wait(0, EMPTY_BARRIER);
  CHECK(said([&] { rig.store(0, DATA); }) == "");
}

TEST_CASE("cp.async comes behind the warp's own loads, not behind other warps'") {
  Rig rig;
  rig.cp_async(0, DATA, 1);
  rig.checker().cp_async_wait(rig.at(0, "cp.async.wait_group"), FULL, 1);
  rig.barrier(ALL);
  rig.load(0, DATA, 0xff);
  CHECK(said([&] { rig.cp_async(0, DATA, 2); }) == "");
  rig.checker().cp_async_wait(rig.at(0, "cp.async.wait_group"), FULL, 2);
  rig.barrier(ALL);
  rig.load(1, DATA, 0xff);
  const std::string report = said([&] { rig.cp_async(0, DATA, 3); });
  CHECK(contains(report, "which ld.shared reads"));
  CHECK(contains(report,
                 "If ld.shared is to read what the copy brings, cp.async.wait_group in warp 0"));
}

TEST_CASE("part of a warp synchronises") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.store(0, DATA);
  rig.sync_lanes(0, 0xff);
  rig.arrive(0, FULL_BARRIER);
  rig.complete(FULL_BARRIER);
  rig.wait(1, FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA, 0xff); }) == "");
  CHECK(said([&] { rig.load(1, DATA, 0xff00); }) != "");
}

TEST_CASE("a lane that waited alone tells the others at bar.warp.sync") {
  for (const bool synced : {false, true}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.tma_load(0, DATA, FULL_BARRIER);
    rig.complete(FULL_BARRIER);
    rig.wait(1, FULL_BARRIER, ONE);
    CHECK(said([&] { rig.load(1, DATA, ONE); }) == "");
    if (synced) rig.sync_lanes(1);
    const std::string report = said([&] { rig.load(1, DATA); });
    CHECK((report == "") == synced);
    if (!synced) CHECK(contains(report, "only some of its lanes have waited"));
  }
}

TEST_CASE("lanes that wait one after another all know") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.tma_load(0, DATA, FULL_BARRIER);
  rig.complete(FULL_BARRIER);
  rig.wait(1, FULL_BARRIER, 0xffff);
  rig.wait(1, FULL_BARRIER, 0xffff0000);
  CHECK(said([&] { rig.load(1, DATA); }) == "");
}

TEST_CASE("an mbarrier is used behind its init") {
  Rig rig;
  rig.init(0, FULL_BARRIER);
  CHECK(said([&] { rig.arrive(0, FULL_BARRIER); }) == "");
  const std::string report = said([&] { rig.arrive(1, FULL_BARRIER); });
  CHECK(contains(report, "uses the mbarrier at shared 0x4400"));
  CHECK(contains(report, "bar.sync"));
}

TEST_CASE("the async proxy uses an mbarrier behind a fence of its init") {
  for (const int how : {0, 1, 2}) {
    Rig rig;
    rig.init(0, FULL_BARRIER);
    if (how == 1) rig.init_fence(0);
    if (how == 2) rig.proxy_fence(0, ONE);
    rig.barrier(ALL);
    const std::string report = said([&] { rig.tma_load(0, DATA, FULL_BARRIER); });
    CHECK((report == "") == (how != 0));
    if (how != 0) continue;
    CHECK(contains(report, "fence.mbarrier_init.release.cluster"));
    CHECK(contains(report, "(undefined by PTX only)"));
  }
}

TEST_CASE("data does not overwrite a living mbarrier") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  CHECK(contains(said([&] { rig.tma_load(0, FULL_BARRIER - 512, FULL_BARRIER); }),
                 "writes over the living mbarrier at shared 0x4400"));
  rig.checker().mbarrier_inval(rig.at(0, "mbarrier.inval"), ONE, FULL_BARRIER);
  CHECK(said([&] { rig.store(0, FULL_BARRIER, ONE, 8); }) == "");
}

TEST_CASE("two copies of one phase need a place each, and the earlier one's issuer is named") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.tma_load(0, DATA, FULL_BARRIER);
  rig.tma_load(1, DATA + 1024, FULL_BARRIER);
  const std::string report = said([&] { rig.tma_load(1, DATA, FULL_BARRIER); });
  CHECK(contains(report, "earlier: warp 0 "));
  CHECK(contains(report, "later:   warp 1 "));
  CHECK(contains(report, "order them: nothing: both complete in one phase of one mbarrier"));
}

TEST_CASE("who has waited for one copy and reads what another brings may have a wrong address") {
  Rig rig;
  rig.set_up({FULL_BARRIER, EMPTY_BARRIER}, ALL);
  rig.tma_load(0, DATA, FULL_BARRIER);
  rig.tma_load(0, DATA + 1024, EMPTY_BARRIER);
  rig.complete(FULL_BARRIER);
  rig.complete(EMPTY_BARRIER);
  const auto read = [&] { return said([&] { rig.load(1, DATA + 1024); }); };
  CHECK(!contains(read(), "latest wait"));
  rig.wait(1, FULL_BARRIER);
  CHECK(contains(read(), "Its latest wait was on the mbarrier at shared 0x4400: if that is"));
}

TEST_CASE("who waits for one phase too few elsewhere is told to look at what ended it") {
  Rig rig;
  rig.set_up({FULL_BARRIER, EMPTY_BARRIER}, ALL);
  const auto read = [&](uint32_t warp) { return said([&] { rig.load(warp, DATA, FULL, 8); }); };
  for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER}) rig.complete(barrier);
  for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER}) rig.wait(1, barrier);
  Checker::Copy copy = rig.issue(0, "cp.async.bulk.tensor.2d.shared", FULL_BARRIER);
  copy.phase = 1;
  rig.checker().copy_writes_shared(copy, {DATA, 1024});
  CHECK(contains(read(1), "for its phase 1 (parity 1), before ld.shared. The wait that it made"));
  rig.wait(2, EMPTY_BARRIER);
  CHECK(!contains(read(2), "The wait that it made"));
}

TEST_CASE("what TMA brings is read behind a wait for its phase") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.tma_load(0, DATA, FULL_BARRIER);
  const std::string report = said([&] { rig.load(1, DATA); });
  CHECK(contains(report, "mbarrier.try_wait by warp 1"));
  CHECK(contains(report, "for its phase 0 (parity 0)"));
  CHECK(contains(report, "mbarrier: that copy completes on the one at shared 0x4400"));
  CHECK(!contains(report, "look at its parity"));
  rig.wait(1, FULL_BARRIER);  // of parity 1: it returns before the phase is over
  CHECK(contains(said([&] { rig.load(1, DATA); }), "was for another phase: look at its parity"));
  rig.complete(FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA); }) != "");
  rig.wait(1, FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA); }) == "");
  // The next phase's copy is another.
  rig.barrier(ALL);
  rig.proxy_fence(0, ONE);
  rig.tma_load(0, DATA, FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA); }) != "");
}

TEST_CASE("lanes access together what each has waited for alone") {
  for (const uint32_t waits : {FULL, FULL & ~(1u << 9)}) {
    Rig rig;
    const auto barrier_of = [](uint32_t lane) { return FULL_BARRIER + 8 * lane; };
    for (uint32_t lane = 0; lane < LANES; ++lane) rig.init(0, barrier_of(lane), 1u << lane);
    rig.init_fence(0, FULL);
    rig.sync_lanes(0);
    for (uint32_t lane = 0; lane < LANES; ++lane) {
      rig.tma_load(0, DATA + 16 * lane, barrier_of(lane), 16, 1u << lane);
      rig.complete(barrier_of(lane));
    }
    for_lanes(waits, [&](uint32_t lane) { rig.wait(0, barrier_of(lane), 1u << lane); });
    CHECK((said([&] { rig.load(0, DATA, FULL, 16); }) == "") == (waits == FULL));
  }
  // Two lanes, each with the flag of another cluster.
  alignas(4096) static uint32_t data[2048];
  for (const uint32_t acquires : {3u, 1u}) {
    const auto shared = std::make_shared<Shared>();
    Rig first(1, 1, 0, shared), second(1, 1, 1, shared), reader(1, 1, 5, shared);
    first.global(0, data, Access::write, 1);
    first.global(0, data + 1024, Access::write, 1, Order::release);
    second.global(0, data, Access::write, 2);
    second.global(0, data + 1026, Access::write, 2, Order::release);
    if (acquires & 1) reader.global(0, data + 1024, Access::read, 1, Order::acquire);
    if (acquires & 2) reader.global(0, data + 1026, Access::read, 2, Order::acquire);
    const std::string report = said([&] { reader.global(0, data, Access::read, 3); });
    CHECK((report == "") == (acquires == 3));
  }
}

TEST_CASE("st.async counts on an mbarrier of another warp or CTA behind its init") {
  for (const bool waits : {false, true}) {
    Rig rig;
    rig.init(0, FULL_BARRIER);
    if (waits) rig.barrier(ALL);
    const Checker::Copy copy = rig.issue(1, "st.async.shared", FULL_BARRIER, 0, ONE, false);
    const std::string report = said([&] { rig.checker().copy_writes_shared(copy, {DATA, 8}); });
    CHECK((report == "") == waits);
    CHECK(contains(report, "whose mbarrier.init is not ordered before that") == !waits);
  }
}

TEST_CASE("what TMA reads of global memory is overwritten behind a wait for the copy") {
  alignas(4096) static uint32_t data[2048];
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.global(1, data, Access::write);
  const Checker::Copy copy = rig.issue(0, "cp.async.bulk.tensor.2d.shared", FULL_BARRIER);
  CHECK(contains(said([&] {
                   rig.checker().copy_reads_global(copy, {{reinterpret_cast<uint64_t>(data), 128}});
                 }),
                 "What would order them: a wait for the copy on the mbarrier at shared 0x4400"));
}

TEST_CASE(
    "a copy that meets an ordinary access: whether it, or what it brings, was to come first") {
  // A store over what TMA brings waits where the copy lands.
  Rig writer;
  writer.set_up({FULL_BARRIER, EMPTY_BARRIER}, ALL);
  writer.tma_load(0, DATA, FULL_BARRIER);
  CHECK(contains(said([&] { writer.store(1, DATA); }),
                 "mbarrier.try_wait by warp 1 of CTA (0,0,0) on the mbarrier at shared 0x4400, for "
                 "its phase 0"));
  // Who reads what is then overwritten has waited for the copies of that mbarrier, or not.
  for (const bool waits : {false, true}) {
    Rig reader;
    reader.store(1, DATA);
    reader.proxy_fence(1);
    reader.set_up({FULL_BARRIER}, ALL);
    reader.tma_load(0, DATA + 1024, FULL_BARRIER);
    reader.complete(FULL_BARRIER);
    if (waits) reader.wait(1, FULL_BARRIER);
    reader.load(1, DATA);
    const std::string report = said([&] { reader.tma_load(0, DATA, FULL_BARRIER); });
    CHECK(contains(report, "bar.sync between the two"));
    CHECK((report.find("is to read what the copy brings") == std::string::npos) == waits);
  }
}

TEST_CASE("who refills a slot waits until it is empty, and not for the phase before the first") {
  for (const bool waits : {false, true}) {
    Rig rig;
    rig.set_up({FULL_BARRIER, EMPTY_BARRIER}, ALL);
    rig.tma_load(0, DATA, FULL_BARRIER);
    if (waits) rig.wait(0, EMPTY_BARRIER);  // of parity 1
    const std::string report = said([&] { rig.tma_load(0, DATA, FULL_BARRIER); });
    CHECK(contains(report, "order them: mbarrier.try_wait by warp 0"));
    CHECK(contains(report, "on which each warp arrives that has read what the earlier copy"));
    CHECK(contains(report, "on the mbarrier at shared 0x4408, returned at once") == waits);
  }
}

TEST_CASE("TMA overwrites what generic loads have read behind a proxy fence and a barrier") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.tma_load(0, DATA, FULL_BARRIER);
    rig.complete(FULL_BARRIER);
    for (const uint32_t i : {1u, 2u}) {
      rig.wait(i, FULL_BARRIER);
      rig.load(i, DATA);
      if (kept & 1) rig.proxy_fence(i);
    }
    if (kept & 2) rig.barrier(ALL);
    const std::string report = said([&] { rig.tma_load(0, DATA, FULL_BARRIER); });
    CHECK((report == "") == (kept == 3));
    if (kept == 2) CHECK(contains(report, "What would order them: fence.proxy.async.shared::cta"));
    if (kept == 1) CHECK(contains(report, "bar.sync"));
  }
}

TEST_CASE("a fence that every lane of a warp executes, if not all at once, is the warp's") {
  // Lanes that left a wait at different times store and fence in two parts, and meet behind it.
  constexpr uint32_t LOW = 0x0000ffff, HIGH = 0xffff0000;
  for (const bool second_fences : {true, false}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    for (uint32_t round = 0; round < 2; ++round) {  // the first round's fences are not the second's
      const uint32_t data = DATA + round * 1024;
      const bool fenced = second_fences || round == 0;
      rig.store(1, data, LOW);
      rig.proxy_fence(1, LOW);
      rig.store(1, data, HIGH);
      if (fenced) rig.proxy_fence(1, HIGH);
      rig.sync_lanes(1);
      rig.arrive(1, FULL_BARRIER);
      rig.complete(FULL_BARRIER);
      rig.wait(0, FULL_BARRIER);
      CHECK((said([&] { rig.tma_store(0, data, round + 1); }) == "") == fenced);
    }
  }
}

TEST_CASE("a warp that goes on late from a barrier that others have used since knows of its own") {
  Rig rig;
  rig.store(2, DATA);
  for (const uint32_t i : {2u, 3u}) rig.checker().barrier_arrive(rig.at(i, "bar.sync"), FULL, 1);
  rig.checker().barrier_complete(rig.cta(), 1);
  rig.checker().barrier_wait(rig.warp(2), FULL, 1);
  rig.barrier({0, 1, 2}, 2);
  rig.barrier({0, 1}, 1);
  rig.checker().barrier_wait(rig.warp(3), FULL, 1);
  CHECK(said([&] { rig.load(3, DATA); }) == "");
}

TEST_CASE("lanes that have parted meet at a barrier when the first of them goes on") {
  constexpr uint32_t REST = FULL & ~ONE;
  Rig rig(1, 1);
  Checker& checker = rig.checker();
  const auto arrive = [&](uint32_t lanes, uint32_t id) {
    checker.barrier_arrive(rig.at(0, "barrier.sync"), lanes, id);
  };
  const auto write = [&](uint32_t lanes) {
    rig.store(0, DATA, lanes);
    rig.proxy_fence(0, lanes);
    arrive(lanes, 2);
  };
  arrive(ONE, 1);
  arrive(REST, 1);
  checker.barrier_complete(rig.cta(), 1);
  checker.barrier_wait(rig.warp(0), ONE, 1);
  write(ONE);
  checker.barrier_wait(rig.warp(0), REST, 1);  // late
  write(REST);
  checker.barrier_complete(rig.cta(), 2);
  checker.barrier_wait(rig.warp(0), ONE, 2);
  CHECK(said([&] { rig.tma_store(0, DATA, 1); }) == "");
}

TEST_CASE("wgmma and TMA stores read what was stored behind fence.proxy.async and a barrier") {
  for (const bool tma : {false, true}) {
    for (const int kept : {0, 1, 2, 3}) {
      Rig rig;
      for (const uint32_t i : ALL) rig.store(i, DATA + i * 256, FULL, 8);
      if (kept & 1) {
        for (const uint32_t i : ALL) rig.proxy_fence(i);
      }
      if (kept & 2) rig.barrier(ALL);
      rig.wgmma_fence(0);
      const std::string report =
          said([&] { tma ? (void)rig.tma_store(0, DATA, 1) : rig.multiply(0, DATA, 1); });
      CHECK((report == "") == (kept == 3));
      if (kept == 2) CHECK(contains(report, "What would order them: fence.proxy.async"));
    }
  }
}

TEST_CASE(
    "lanes that have parted fence each for what they stored, and a barrier counts all of it") {
  constexpr uint32_t SOME = 0x0c669a0b, FIRST = 0x123a0e9e, OTHERS = ~FIRST;
  for (const bool all : {false, true}) {
    Rig rig;
    rig.store(0, DATA, SOME);
    rig.proxy_fence(0, FIRST);
    rig.store(0, DATA, OTHERS);
    if (all) rig.proxy_fence(0, OTHERS);
    rig.barrier(ALL);
    CHECK((said([&] { rig.tma_store(1, DATA, 1); }) == "") == all);
  }
}

TEST_CASE("one thread may fence for all, behind the barrier") {
  Rig rig;
  for (const uint32_t i : ALL) rig.store(i, DATA + i * 256, FULL, 8);
  rig.barrier(ALL);
  rig.proxy_fence(0, ONE);
  CHECK(said([&] { rig.tma_store(0, DATA, 1); }) == "");
  CHECK(said([&] { rig.tma_store(0, DATA, 1, 2); }) != "");
}

TEST_CASE("a slot that wgmma reads is free behind wait_group, arrive and wait") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig(1, 8);
    rig.set_up({FULL_BARRIER, EMPTY_BARRIER}, {0, 1, 2, 3, 4, 5, 6, 7});
    rig.tma_load(4, DATA, FULL_BARRIER);
    rig.complete(FULL_BARRIER);
    for (const uint32_t i : ALL) {
      rig.wait(i, FULL_BARRIER);
      rig.wgmma_fence(i);
      rig.multiply(i, DATA, 1);
      if (kept & 3) rig.wgmma_commit(i);
      if (kept & 1) rig.wgmma_wait(i, 1);
      rig.arrive(i, EMPTY_BARRIER);
    }
    rig.complete(EMPTY_BARRIER);
    if (kept & 2) rig.wait(4, EMPTY_BARRIER, ONE);
    const std::string report = said([&] { rig.tma_load(4, DATA, FULL_BARRIER); });
    CHECK((report == "") == (kept == 3));
    if (kept == 0) CHECK(contains(report, "order them: wgmma.commit_group behind wgmma.mma_async"));
    if (kept == 2) CHECK(contains(report, "What would order them: wgmma.wait_group in warp 0"));
    if (kept == 1) CHECK(contains(report, "behind its wgmma.wait_group, on an mbarrier"));
  }
}

TEST_CASE("wait_group completes the groups of the whole warpgroup") {
  Rig rig;
  for (const uint32_t i : ALL) {
    rig.store(i, DATA + i * 256, FULL, 8);
    rig.proxy_fence(i);
  }
  rig.barrier(ALL);
  for (const uint32_t i : ALL) {
    rig.wgmma_fence(i);
    rig.multiply(i, DATA, 1);
  }
  CHECK(said([&] { rig.store(0, DATA, ONE); }) != "");
  rig.wgmma_wait(0, 1);
  CHECK(said([&] { rig.store(0, DATA, ONE); }) == "");
  // Who names its registers has waited itself, as all four must.
  rig.barrier(ALL);
  CHECK(said([&] { rig.touch(0, 9); }) == "");
  CHECK(contains(said([&] { rig.touch(1, 9); }), "by every warp of the warpgroup"));
}

TEST_CASE("registers of wgmma rest from mma_async to wait_group") {
  Rig rig;
  rig.store(0, DATA, FULL, 16);
  rig.store(0, DATA + 512, FULL, 16);
  rig.proxy_fence(0);
  CHECK(contains(said([&] { rig.multiply(0, DATA, 1); }), "wgmma.fence is missing"));
  rig.touch(0, 8);
  rig.wgmma_fence(0);
  CHECK(said([&] { rig.multiply(0, DATA, 1); }) == "");
  CHECK(said([&] { rig.multiply(0, DATA, 1); }) == "");
  CHECK(said([&] { rig.touch(0, 20); }) == "");
  const std::string report = said([&] { rig.touch(0, 9); });
  CHECK(contains(report, "names an accumulator of a wgmma.mma_async in flight"));
  CHECK(contains(report, "wgmma.wait_group"));
  rig.wgmma_wait(0, 1);
  CHECK(said([&] { rig.touch(0, 9); }) == "");
  const std::string touched = said([&] { rig.multiply(0, DATA, 2); });
  CHECK(contains(touched, "wgmma.fence is missing"));
  CHECK(contains(touched, "the compiler has moved that instruction behind it"));
  rig.wgmma_fence(0);
  CHECK(said([&] { rig.multiply(0, DATA, 2); }) == "");
}

TEST_CASE("registers of wgmma that hold A are read, not written, before the wait") {
  for (const bool write : {false, true}) {
    Rig rig;
    rig.store(0, DATA, FULL, 16);
    rig.store(0, DATA + 512, FULL, 16);
    rig.proxy_fence(0);
    rig.wgmma_fence(0);
    const std::vector<Segment> b = {{DATA, 1024}};
    const Inst product = rig.wgmma(8, 1);  // 4 of D, and of A in rows from 12 on
    rig.checker().wgmma_issue(rig.at(0, "wgmma.mma_async"), product, 1, {{}, b});
    const std::string report = said([&] { write ? rig.write(0, 12) : rig.touch(0, 12); });
    CHECK((report == "") == !write);
  }
}

TEST_CASE("what a TMA store reads changes behind wait_group.read and a barrier") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig;
    for (const uint32_t i : ALL) {
      rig.store(i, DATA + i * 256, FULL, 8);
      rig.proxy_fence(i);
    }
    rig.barrier(ALL);
    rig.tma_store(0, DATA, 1);
    if (kept & 1) rig.checker().bulk_wait(rig.at(0, "cp.async.bulk.wait_group.read"), ONE, 1, true);
    if (kept & 2) rig.barrier(ALL);
    const std::string report = said([&] { rig.store(1, DATA); });
    CHECK((report == "") == (kept == 3));
    if (kept == 2) CHECK(contains(report, "cp.async.bulk.wait_group.read"));
  }
}

TEST_CASE("cp.async is read behind its wait_group and a barrier") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig;
    rig.cp_async(0, DATA, 1);
    rig.cp_async(0, DATA + 512, 2);
    if (kept & 1) rig.checker().cp_async_wait(rig.at(0, "cp.async.wait_group"), FULL, 1);
    if (kept & 2) rig.barrier(ALL);
    const std::string report = said([&] { rig.load(1, DATA); });
    CHECK((report == "") == (kept == 3));
    if (kept == 2) CHECK(contains(report, "cp.async.wait_group"));
    if (kept == 3) CHECK(said([&] { rig.load(1, DATA + 512); }) != "");
  }
}

TEST_CASE("cp.async is read behind cp.async.mbarrier.arrive and a wait") {
  Rig rig;
  rig.set_up({FULL_BARRIER}, ALL);
  rig.cp_async(0, DATA, 1);
  rig.cp_async_arrive(0, FULL_BARRIER, 1);
  rig.cp_async(0, DATA + 512, 2);
  rig.complete(FULL_BARRIER);
  rig.wait(1, FULL_BARRIER);
  CHECK(said([&] { rig.load(1, DATA); }) == "");
  CHECK(said([&] { rig.load(1, DATA + 512); }) != "");
}

TEST_CASE("wgmma reads what cp.async wrote behind a proxy fence") {
  for (const bool fenced : {false, true}) {
    Rig rig;
    rig.cp_async(0, DATA, 1);
    rig.cp_async(0, DATA + 512, 1);
    rig.checker().cp_async_wait(rig.at(0, "cp.async.wait_group"), FULL, 1);
    if (fenced) rig.proxy_fence(0);
    rig.barrier(ALL);
    rig.wgmma_fence(1);
    const std::string report = said([&] { rig.multiply(1, DATA, 1); });
    CHECK((report == "") == fenced);
    if (!fenced) CHECK(contains(report, "fence.proxy.async"));
  }
}

TEST_CASE("a remote arrive needs cluster scope") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig(2);
    rig.init(0, FULL_BARRIER);
    rig.init_fence(0);
    rig.cluster_barrier();
    rig.store(4, DATA + PEER);
    rig.sync_lanes(4);
    rig.arrive(4, FULL_BARRIER, ONE, true, kept & 1 ? Scope::cluster : Scope::cta);
    rig.complete(FULL_BARRIER);
    rig.wait(0, FULL_BARRIER, FULL, true, kept & 2 ? Scope::cluster : Scope::cta);
    const std::string report = said([&] { rig.load(0, DATA + PEER); });
    CHECK((report == "") == (kept == 3));
    if (kept != 3) CHECK(contains(report, "What would order them: scope .cluster"));
  }
}

TEST_CASE("a relaxed remote arrive and wait order with fences around them") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig(2);
    rig.init(0, FULL_BARRIER);
    rig.init_fence(0);
    rig.cluster_barrier();
    rig.store(4, DATA + PEER);
    rig.sync_lanes(4);
    if (kept & 1) rig.fence(4, Order::release, Scope::cluster, ONE);
    rig.arrive(4, FULL_BARRIER, ONE, false, Scope::cluster);
    rig.complete(FULL_BARRIER);
    rig.wait(0, FULL_BARRIER, FULL, false, Scope::cluster);
    if (kept & 2) rig.fence(0, Order::acquire, Scope::cluster);
    const std::string report = said([&] { rig.load(0, DATA + PEER); });
    CHECK((report == "") == (kept == 3));
    if (kept == 1) CHECK(contains(report, "What would order them: fence.acquire"));
    if (kept == 2) CHECK(contains(report, "What would order them: fence.release"));
  }
}

TEST_CASE("a multicast copy needs no cluster scope of who waits for it") {
  Rig rig(2);
  for (const uint32_t i : {0u, 4u}) {
    rig.init(i, FULL_BARRIER + (i == 0 ? 0 : PEER));
    rig.init_fence(i);
  }
  rig.cluster_barrier();
  rig.tma_load(0, DATA + PEER, FULL_BARRIER + PEER);
  rig.complete(FULL_BARRIER + PEER);
  rig.wait(4, FULL_BARRIER + PEER);
  CHECK(said([&] { rig.load(4, DATA + PEER); }) == "");
  CHECK(said([&] { rig.load(5, DATA + PEER); }) != "");
}

TEST_CASE("the cluster's barrier orders; a relaxed arrive only what was fenced before") {
  for (const int how : {0, 1, 2}) {
    Rig rig(2);
    rig.init(0, FULL_BARRIER);
    rig.init_fence(0);
    rig.store(0, DATA);
    if (how == 1) rig.fence(0, Order::acq_rel, Scope::cluster);
    rig.cluster_barrier(how == 2);
    CHECK(said([&] { rig.arrive(4, FULL_BARRIER, ONE, true, Scope::cluster); }) == "");
    CHECK((said([&] { rig.load(4, DATA); }) == "") == (how != 0));
  }
}

TEST_CASE("a CTA does not exit before a peer's access to it is over") {
  for (const bool ordered : {false, true}) {
    Rig rig(2, 1);
    rig.store(0, DATA);
    rig.cluster_barrier();
    rig.load(1, DATA);
    if (ordered) rig.cluster_barrier();
    const std::string report = said([&] { rig.exit_warp(0, true); });
    CHECK((report == "") == ordered);
    if (!ordered) CHECK(contains(report, "barrier.cluster.arrive and barrier.cluster.wait"));
    CHECK(contains(said([&] { rig.load(1, DATA); }), "its shared memory may be another's"));
  }
}

TEST_CASE("a CTA exits behind a barrier of the cluster at which a peer has released its access") {
  for (const bool releases : {false, true}) {
    Rig rig(2, 1);
    rig.store(0, DATA);
    rig.cluster_barrier();
    rig.load(1, DATA);
    rig.cluster_barrier(releases);
    const std::string report = said([&] { rig.exit_warp(0, true); });
    CHECK((report == "") == releases);
    if (!releases) CHECK(contains(report, "them: barrier.cluster.arrive.release in place of .rel"));
  }
}

TEST_CASE(
    "a CTA may exit once it has seen a peer's arrivals counted, though they release nothing") {
  // Three relaxed arrivals at two barriers, a fence before each.
  const auto arrives = [](Rig& rig) {
    for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER}) {
      rig.init(0, barrier);
      rig.init_fence(0);
    }
    rig.cluster_barrier();
    for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER, FULL_BARRIER}) {
      rig.fence(2, Order::release, Scope::cluster, ONE);
      rig.arrive(2, barrier, ONE, false, Scope::cluster);
      rig.complete(barrier);
    }
  };
  const auto exits = [](Rig& rig) {
    rig.exit_warp(0, false);
    return said([&] { rig.exit_warp(1, true); });
  };
  for (const bool acquires : {false, true}) {  // by any warp of the CTA
    Rig rig(2, 2);
    arrives(rig);
    rig.wait(0, FULL_BARRIER, ONE, acquires, Scope::cluster);
    rig.wait(1, EMPTY_BARRIER, FULL, acquires, Scope::cluster);
    CHECK(exits(rig) == "");
  }
  {  // a wait at another one knows of what came before the last fence
    Rig rig(2, 2);
    arrives(rig);
    rig.wait(0, EMPTY_BARRIER, ONE, true, Scope::cluster);
    const std::string report = exits(rig);
    CHECK(contains(report, "mbarrier.arrive may still write shared 0x4400"));
    CHECK(contains(report, "order them: a wait for that phase of the mbarrier (1, parity 1) by"));
    CHECK(contains(report, "or barrier.cluster.arrive and barrier.cluster.wait by all threads"));
    CHECK(contains(report, "Rule: cta-exit"));
  }
  {  // the phase before that of the last arrival
    Rig rig(2, 2);
    arrives(rig);
    for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER}) rig.wait(0, barrier);
    rig.arrive(2, FULL_BARRIER, ONE, false, Scope::cluster);
    rig.complete(FULL_BARRIER);
    const std::string report = exits(rig);
    CHECK(contains(report, "order them: a wait for that phase of the mbarrier (2, parity 0) by"));
    CHECK(contains(report, "Rule: cta-exit"));
  }
  {  // what the peer has written behind its fence is another matter
    Rig rig(2, 2);
    arrives(rig);
    rig.store(2, DATA);
    rig.arrive(2, FULL_BARRIER, ONE, false, Scope::cluster);
    rig.complete(FULL_BARRIER);
    for (const uint32_t barrier : {FULL_BARRIER, EMPTY_BARRIER}) rig.wait(0, barrier);
    CHECK(contains(exits(rig), "st.shared may still write shared"));
  }
}

TEST_CASE("of a copy over what several warps have read a race is said first") {
  for (const bool ordered : {false, true}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    for (const uint32_t i : {0u, 1u}) {
      rig.store(i, DATA + i * 128);
      rig.proxy_fence(i);
      rig.load(i, DATA + i * 128);
    }
    rig.sync_lanes(0);
    if (ordered) rig.barrier(ALL);
    const std::string report = said([&] { rig.tma_load(0, DATA, FULL_BARRIER); });
    CHECK(contains(report, ordered ? "Rule: proxy-war" : "Rule: shared-race"));
    CHECK(contains(report, ordered ? "earlier: warp 0" : "earlier: warp 1"));
  }
}

TEST_CASE("a phase of an mbarrier that was made anew counts no arrival from before") {
  for (const bool counted : {false, true}) {
    Rig rig(2, 2);
    rig.init(0, FULL_BARRIER);
    rig.init_fence(0);
    rig.cluster_barrier();
    rig.arrive(2, FULL_BARRIER, ONE, false, Scope::cluster);
    if (counted) rig.complete(FULL_BARRIER);
    rig.checker().mbarrier_inval(rig.at(0, "mbarrier.inval"), ONE, FULL_BARRIER);
    rig.init(0, FULL_BARRIER);
    rig.arrive(0, FULL_BARRIER);
    rig.complete(FULL_BARRIER);
    rig.wait(0, FULL_BARRIER, ONE);
    rig.exit_warp(0, false);
    const std::string report = said([&] { rig.exit_warp(1, true); });
    CHECK((report == "") == counted);
    if (!counted) CHECK(contains(report, "Rule: cta-exit"));
  }
}

TEST_CASE("a CTA does not exit before copies into it have landed") {
  for (const bool waits : {false, true}) {
    Rig rig(1, 1);
    rig.set_up({FULL_BARRIER}, {0});
    rig.tma_load(0, DATA, FULL_BARRIER);
    rig.complete(FULL_BARRIER);
    if (waits) rig.wait(0, FULL_BARRIER);
    CHECK((said([&] { rig.exit_warp(0, true); }) == "") == waits);
  }
  // The lane that has waited exits, and the others meet without it.
  Rig rig(1, 1);
  rig.set_up({FULL_BARRIER}, {0});
  rig.tma_load(0, DATA, FULL_BARRIER);
  rig.complete(FULL_BARRIER);
  rig.wait(0, FULL_BARRIER, ONE);
  rig.exit_warp(0, false, ONE);
  rig.sync_lanes(0, FULL & ~ONE);
  CHECK(said([&] { rig.exit_warp(0, true, FULL & ~ONE); }) == "");
}

TEST_CASE("a CTA does not exit before TMA stores have read its shared memory") {
  for (const uint32_t waited : {0, 1, 2}) {
    Rig rig(1, 2);
    for (uint32_t i = 0; i < 6; ++i) rig.store(i % 2, DATA + i * 256, FULL, 8);
    for (const uint32_t i : {0, 1}) rig.proxy_fence(i);
    rig.barrier({0, 1});
    const Checker::Copy second = rig.tma_store(0, DATA + 512, 2);  // groups are read in any order
    rig.tma_store(0, DATA, 1);
    rig.warp(0).bulk.count = 2;
    if (waited > 0) {
      rig.checker().bulk_wait(rig.at(0, "cp.async.bulk.wait_group.read"), ONE, waited, true);
    }
    rig.exit_warp(0, false);
    const std::string report = said([&] { rig.exit_warp(1, true); });
    CHECK((report == "") == (waited == 2));
    if (waited == 2) continue;
    CHECK(contains(report, "cp.async.bulk.wait_group.read by the thread of warp 0"));
    CHECK(contains(report, "Rule: bulk-exit"));
    CHECK(contains(said([&] { rig.checker().copy_reads_shared(second, {DATA, 16}); }),
                   "Rule: bulk-exit"));
  }
}

TEST_CASE("a CTA does not exit before copies to a peer have read its shared memory") {
  for (const bool told : {false, true}) {
    Rig rig(2, 1);
    rig.store(0, DATA, FULL, 8);
    rig.proxy_fence(0);
    rig.init(1, PEER | FULL_BARRIER);
    rig.init_fence(1);
    rig.cluster_barrier();
    const Checker::Copy copy =
        rig.issue(0, "cp.async.bulk.shared::cluster.shared::cta", PEER | FULL_BARRIER);
    rig.checker().copy_reads_shared(copy, {DATA, 256});
    rig.complete(PEER | FULL_BARRIER);
    rig.wait(1, PEER | FULL_BARRIER);
    if (told) rig.cluster_barrier();
    const std::string report = said([&] { rig.exit_warp(0, true); });
    CHECK((report == "") == told);
    if (!told) CHECK(contains(report, "an mbarrier wait for the copy where it lands, then"));
    if (!told) CHECK(contains(report, "Rule: bulk-exit"));
  }
}

TEST_CASE("strong accesses to a flag in shared memory do not race, and synchronise with fences") {
  for (const int kept : {0, 1, 2, 3}) {
    Rig rig;
    rig.store(0, DATA + 256, ONE);
    rig.barrier(ALL);
    rig.store(0, DATA);
    rig.sync_lanes(0);
    if (kept & 1) rig.fence(0, Order::acq_rel, Scope::cta, ONE);
    rig.strong(0, DATA + 256, Access::write, Order::relaxed);
    rig.strong(1, DATA + 256, Access::read, Order::relaxed, Scope::cta, FULL);
    rig.strong(2, DATA + 256, Access::atomic, Order::relaxed);
    if (kept & 2) rig.fence(1, Order::acq_rel, Scope::cta);
    const std::string report = said([&] { rig.load(1, DATA); });
    CHECK((report == "") == (kept == 3));
    if (kept == 1) CHECK(contains(report, "fence.acquire (or fence.acq_rel) behind the relaxed"));
    if (kept == 2) CHECK(contains(report, "fence.release (or fence.acq_rel) before the relaxed"));
  }
}

TEST_CASE("in shared memory, too, a plain load races with another warp's atomic") {
  Rig rig;
  rig.strong(0, DATA, Access::write, Order::relaxed);
  rig.barrier(ALL);
  rig.strong(0, DATA, Access::atomic, Order::relaxed);
  CHECK(said([&] { rig.strong(1, DATA, Access::read, Order::relaxed); }) == "");
  CHECK(said([&] { rig.load(2, DATA, ONE); }) != "");
}

TEST_CASE("a fence by lanes that have polled different flags acquires what each of them has seen") {
  constexpr uint32_t EVEN = 0x55555555, FLAGS = DATA + 256;
  for (const bool fenced : {false, true}) {
    Rig rig;
    rig.store(0, FLAGS, 3);
    rig.barrier(ALL);
    for (const uint32_t lane : {1u, 2u}) {
      rig.store(0, DATA, lane);
      rig.strong(0, FLAGS + 4 * (lane - 1), Access::write, Order::release, Scope::cta, lane);
      rig.strong(1, FLAGS + 4 * (lane - 1), Access::read, Order::relaxed, Scope::cta,
                 lane == 1 ? EVEN : ~EVEN);
    }
    if (fenced) rig.fence(1, Order::acq_rel, Scope::cta, 3);
    CHECK((said([&] { rig.load(1, DATA, 3); }) == "") == fenced);
    CHECK(said([&] { rig.load(1, DATA - 8, 4); }) != "");  // a lane that has not fenced
  }
}

TEST_CASE("what one lane has heard of another of its warp it hands on when it releases") {
  constexpr uint32_t TWO = 2, FLAG = DATA + 256;
  for (const bool heard : {false, true}) {
    Rig rig;
    rig.store(0, FLAG, 3);
    rig.barrier(ALL);
    rig.store(0, DATA, ONE);
    rig.strong(0, FLAG, Access::write, Order::release, Scope::cta, ONE);
    if (heard) rig.strong(0, FLAG, Access::read, Order::acquire, Scope::cta, TWO);
    rig.strong(0, FLAG + 4, Access::write, Order::release, Scope::cta, TWO);
    rig.strong(1, FLAG + 4, Access::read, Order::acquire, Scope::cta, ONE);
    CHECK((said([&] { rig.load(1, DATA, ONE); }) == "") == heard);
  }
}

TEST_CASE("of the lanes that count in one place the last is behind the others") {
  for (const Order order : {Order::relaxed, Order::acq_rel}) {
    for (const bool fenced : {false, true}) {
      Rig rig;
      rig.store(0, DATA + 256, ONE);
      rig.barrier(ALL);
      rig.store(0, DATA);
      if (fenced) rig.fence(0, Order::acq_rel, Scope::cta);
      rig.strong(0, DATA + 256, Access::atomic, order, Scope::cta, FULL);
      if (fenced) rig.fence(0, Order::acq_rel, Scope::cta, ONE);
      const std::string report = said([&] { rig.load(0, DATA + 4, ONE); });
      CHECK((report == "") == (fenced || order == Order::acq_rel));
      if (order == Order::relaxed) continue;
      rig.strong(0, DATA + 264, Access::write, Order::release);
      rig.strong(1, DATA + 264, Access::read, Order::acquire, Scope::cta, FULL);
      CHECK(said([&] { rig.load(1, DATA); }) == "");
    }
  }
}

TEST_CASE("between clusters: stores, a fence, a barrier and a flag; a poll, a fence, a barrier") {
  alignas(4096) static uint32_t data[2048];
  for (const int kept : {0, 1, 2, 3}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 2, 0, shared), reader(1, 2, 5, shared);
    writer.global(0, data, Access::write);
    writer.global(1, data + 32, Access::write);
    if (kept & 1) {
      for (const uint32_t i : {0u, 1u}) writer.fence(i, Order::acq_rel, Scope::gpu);
    }
    writer.barrier({0, 1});
    writer.global(0, data + 1024, Access::atomic, ONE, Order::relaxed);
    reader.global(0, data + 1024, Access::read, ONE, Order::relaxed);
    if (kept & 2) reader.fence(0, Order::acq_rel, Scope::gpu, ONE);
    reader.barrier({0, 1});
    const std::string report = said([&] {
      reader.global(1, data, Access::read);
      reader.global(0, data + 32, Access::read);
    });
    CHECK((report == "") == (kept == 3));
    if (kept == 3) continue;
    CHECK(contains(report, "earlier: warp 0 of CTA (0,0,0), which writes it by st.global"));
    CHECK(contains(report, "later:   warp 1 of CTA (5,0,0)"));
    CHECK(contains(report, "fence.acq_rel.gpu (__threadfence)"));
  }
}

TEST_CASE("between clusters: every thread's fence behind the barrier acquires what one has seen") {
  alignas(4096) static uint32_t data[2048];
  for (const bool fenced : {false, true}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 1, 0, shared), reader(1, 2, 5, shared);
    writer.global(0, data, Access::write, ONE);
    writer.global(0, data + 1024, Access::write, ONE, Order::release);
    reader.global(0, data + 1024, Access::atomic, ONE, Order::relaxed);
    reader.barrier({0, 1});
    if (fenced) reader.fence(1, Order::acq_rel, Scope::gpu);
    CHECK((said([&] { reader.global(1, data, Access::read, ONE); }) == "") == fenced);
  }
}

TEST_CASE("between clusters: a release that comes between the call and the load is learned") {
  alignas(4096) static uint32_t data[2048];
  const auto shared = std::make_shared<Shared>();
  Rig writer(1, 1, 0, shared), reader(1, 1, 5, shared);
  reader.global(0, data + 1024, Access::read, ONE, Order::acquire);
  writer.global(0, data, Access::write, ONE);
  writer.global(0, data + 1024, Access::write, ONE, Order::release);
  CHECK(said([&] { reader.global(0, data, Access::read, ONE); }) == "");
}

TEST_CASE("between clusters: lanes that release flags of their own by one instruction") {
  alignas(4096) static uint32_t data[2048];
  for (const bool met : {false, true}) {
    for (const bool fenced : {false, true}) {
      const auto shared = std::make_shared<Shared>();
      Rig writer(1, 1, 0, shared), reader(1, 1, 5, shared);
      writer.global(0, data, Access::write);
      if (met) writer.sync_lanes(0);
      if (fenced) writer.fence(0, Order::acq_rel, Scope::gpu);
      writer.flags(0, data + 1024, fenced ? Order::relaxed : Order::release);
      reader.global(0, data + 1027, Access::read, 8, Order::acquire);
      CHECK(said([&] { reader.global(0, data, Access::read, 8); }) == "");
      CHECK((said([&] { reader.global(0, data + 1, Access::read, 8); }) == "") == met);
    }
  }
}

TEST_CASE("between clusters: release and acquire, handed on by a third") {
  alignas(4096) static uint32_t data[2048];
  const auto shared = std::make_shared<Shared>();
  Rig first(1, 1, 0, shared), second(1, 1, 1, shared), third(1, 1, 2, shared);
  first.global(0, data, Access::write, ONE);
  first.global(0, data + 1024, Access::write, ONE, Order::release);
  second.global(0, data + 1024, Access::read, ONE, Order::acquire);
  second.global(0, data + 1025, Access::atomic, ONE, Order::acq_rel);
  CHECK(said([&] { third.global(0, data, Access::read, ONE); }) != "");
  third.global(0, data + 1025, Access::atomic, ONE, Order::acq_rel);
  CHECK(said([&] { third.global(0, data, Access::write, ONE); }) == "");
  CHECK(said([&] { first.global(0, data, Access::read, ONE); }) != "");
}

TEST_CASE("between clusters: a warp knows what each part of it has seen, and no more") {
  alignas(4096) static uint32_t data[2048];
  constexpr uint32_t LOW = 0xffff, HIGH = ~LOW;
  const auto shared = std::make_shared<Shared>();
  Rig first(1, 1, 0, shared), second(1, 1, 1, shared), reader(1, 1, 5, shared);
  first.global(0, data, Access::write);
  second.global(0, data + 512, Access::write);
  for (Rig* rig : {&first, &second}) rig->sync_lanes(0);
  first.global(0, data + 1024, Access::write, ONE, Order::release);
  second.global(0, data + 1025, Access::write, ONE, Order::release);
  for (uint32_t* const flag : {data + 1024, data + 1025}) {
    reader.global(0, flag, Access::read, LOW, Order::acquire);
  }
  reader.global(0, data + 1024, Access::read, HIGH, Order::acquire);
  CHECK(said([&] { reader.global(0, data, Access::read); }) == "");
  CHECK(said([&] { reader.global(0, data + 512, Access::read, LOW); }) == "");
  CHECK(contains(said([&] { reader.global(0, data + 512, Access::read, HIGH); }),
                 "behind the fence: only some of its lanes have seen the counter or flag."));
}

TEST_CASE("between clusters: what all lanes of a warp have heard in parts each of them knows") {
  alignas(4096) static uint32_t data[2048];
  constexpr uint32_t LOW = 0xffff, HIGH = ~LOW;
  const auto shared = std::make_shared<Shared>();
  Rig first(1, 1, 0, shared), second(1, 1, 1, shared), reader(1, 2, 5, shared);
  first.global(0, data + 1024, Access::write, ONE, Order::release);
  second.global(0, data + 1025, Access::write, ONE, Order::release);
  for (uint32_t* const flag : {data + 1024, data + 1025}) {
    for (const uint32_t lanes : {LOW, HIGH}) {
      reader.global(0, flag, Access::read, lanes, Order::acquire);
    }
  }
  reader.global(1, data, Access::write, ONE);
  reader.global(1, data + 1026, Access::write, ONE, Order::release);
  for (const uint32_t lanes : {ONE, ~ONE}) {
    reader.global(0, data + 1026, Access::read, lanes, Order::acquire);
  }
  for (const uint32_t lanes : {ONE, LOW, HIGH, FULL}) {
    CHECK(said([&] { reader.global(0, data, Access::read, lanes); }) == "");
  }
}

TEST_CASE("between clusters: what one lane has released comes back to another of its warp") {
  alignas(4096) static uint32_t data[2048];
  constexpr uint32_t TWO = 2;
  uint32_t* const flags = data + 1024;
  for (const bool heard : {false, true}) {
    const auto shared = std::make_shared<Shared>();
    Rig one(1, 1, 0, shared), other(1, 1, 1, shared);
    one.global(0, data + 1, Access::write, ONE);
    one.global(0, flags, Access::write, ONE, Order::release);
    if (heard) other.global(0, flags, Access::read, ONE, Order::acquire);
    other.global(0, flags + 8, Access::write, ONE, Order::release);
    one.global(0, flags + 8, Access::read, TWO, Order::acquire);
    CHECK((said([&] { one.global(0, data, Access::read, TWO); }) == "") == heard);
  }
}

TEST_CASE("between clusters: too narrow a scope orders nothing, atomics do not race") {
  alignas(4096) static uint32_t data[2048];
  const auto shared = std::make_shared<Shared>();
  Rig first(1, 1, 0, shared), second(1, 1, 1, shared);
  first.global(0, data, Access::write, ONE);
  first.global(0, data + 1024, Access::write, ONE, Order::release, Scope::cta);
  CHECK(contains(said([&] { second.global(0, data + 1024, Access::read, ONE, Order::acquire); }),
                 "scope .gpu, or a wider one"));
  CHECK(said([&] { second.global(0, data, Access::read, ONE); }) != "");
  for (Rig* rig : {&first, &second}) {
    CHECK(said([&] { rig->global(0, data + 512, Access::atomic, ONE, Order::relaxed); }) == "");
  }
}

TEST_CASE("between clusters: who writes must know of all who read, not of the last alone") {
  alignas(4096) static uint32_t data[2048];
  uint32_t* const flags = data + 1024;
  for (const bool all_tell : {false, true}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 1, 0, shared), one(1, 1, 1, shared), other(1, 1, 2, shared);
    writer.global(0, data, Access::write, ONE);
    writer.global(0, flags, Access::write, ONE, Order::release);
    for (Rig* const reader : {&one, &other}) {
      reader->global(0, flags, Access::read, ONE, Order::acquire);
      reader->global(0, data, Access::read, ONE);
    }
    if (all_tell) one.global(0, flags + 8, Access::write, ONE, Order::release);
    other.global(0, flags + 16, Access::write, ONE, Order::release);
    writer.global(0, flags + 8, Access::read, ONE, Order::acquire);
    writer.global(0, flags + 16, Access::read, ONE, Order::acquire);
    writer.global(0, data, Access::read, ONE);  // what it reads itself changes nothing
    const std::string report = said([&] { writer.global(0, data, Access::write, ONE); });
    CHECK((report == "") == all_tell);
    if (!all_tell) CHECK(contains(report, "earlier: warp 0 of CTA (1,0,0), which reads it"));
  }
}

TEST_CASE("between clusters: a store over another's release hands nothing on, an atomic does") {
  alignas(4096) static uint32_t data[2048];
  uint32_t* const flag = data + 1024;
  for (const Access release : {Access::write, Access::atomic}) {
    for (const Access access : {Access::write, Access::atomic}) {
      for (const bool by_first : {false, true}) {
        const auto shared = std::make_shared<Shared>();
        Rig first(1, 1, 0, shared), second(1, 1, 1, shared), third(1, 1, 2, shared);
        first.global(0, data, Access::write, ONE);
        first.global(0, flag, release, ONE, Order::release);
        (by_first ? first : second).global(0, flag, access, ONE, Order::relaxed);
        third.global(0, flag, Access::read, ONE, Order::acquire);
        const std::string report = said([&] { third.global(0, data, Access::read, ONE); });
        CHECK((report == "") == (by_first || access == Access::atomic));
      }
    }
  }
}

TEST_CASE("between clusters: what is missing is named, whichever warp has seen the flag") {
  alignas(4096) static uint32_t data[2048];
  struct Case {
    Order order;
    Scope fence, store, load;
    const char* remedy;
  };
  const Case cases[] = {
      {Order::acquire, Scope::gpu, Scope::gpu, Scope::gpu, "it is that fence, the writer's"},
      {Order::acq_rel, Scope::cta, Scope::gpu, Scope::gpu, "scope .gpu, or a wider one, in all"},
      {Order::acq_rel, Scope::cluster, Scope::gpu, Scope::gpu,
       "scope .gpu, or a wider one, in all"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.remedy);
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 2, 0, shared), reader(1, 2, 5, shared);
    writer.global(1, data, Access::write);
    writer.barrier({0, 1});
    writer.fence(0, each.order, each.fence, ONE);
    writer.global(0, data + 1024, Access::write, ONE, Order::relaxed, each.store);
    reader.global(0, data + 1024, Access::read, ONE, Order::acquire, each.load);
    reader.barrier({0, 1});
    const std::string report = said([&] { reader.global(1, data, Access::read); });
    CHECK(contains(report, each.remedy));
    CHECK(contains(report, "warp 0 of CTA (5,0,0) has seen"));
  }
  // The flag itself.
  const auto shared = std::make_shared<Shared>();
  Rig writer(1, 1, 0, shared), reader(1, 1, 5, shared);
  writer.global(0, data + 512, Access::write, ONE);
  CHECK(contains(
      said([&] { reader.global(0, data + 512, Access::read, ONE, Order::acquire); }),
      "st.relaxed (or volatile) in place of st.global, if this is the counter or flag itself"));
  reader.global(0, data + 600, Access::write, ONE, Order::release);
  CHECK(contains(said([&] { writer.global(0, data + 600, Access::read, ONE); }),
                 "ld.relaxed (or volatile) in place of ld.global"));
  // Also within a CTA, where a barrier would do too.
  Rig both(1, 2);
  both.global(0, data + 700, Access::write, ONE, Order::relaxed);
  const std::string report = said([&] { both.global(1, data + 700, Access::read, ONE); });
  CHECK(contains(report, "ld.relaxed (or volatile) in place of ld.global"));
  CHECK(contains(report, "or if any value will do. Else: bar.sync between the two"));
}

TEST_CASE("a copy of one half of 8 bytes leaves the other alone") {
  for (const uint32_t half : {0u, 4u}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.store(1, DATA, ONE);
    const Checker::Copy copy = rig.issue(0, "st.async", FULL_BARRIER, 0, ONE, false);
    CHECK((said([&] { rig.checker().copy_writes_shared(copy, {DATA + half, 4}); }) == "") ==
          (half == 4));
  }
}

TEST_CASE("the source of a copy to a peer changes behind a wait where it lands") {
  Rig rig(2, 4);
  rig.set_up({FULL_BARRIER, PEER | FULL_BARRIER}, ALL);
  rig.cluster_barrier();
  rig.store(0, DATA);
  rig.proxy_fence(0);
  rig.sync_lanes(0);
  const Checker::Copy copy =
      rig.issue(0, "cp.async.bulk.shared::cluster.shared::cta", PEER | FULL_BARRIER);
  rig.checker().copy_reads_shared(copy, {DATA, 128});
  CHECK(contains(said([&] { rig.store(0, DATA); }), "a wait for the copy where it lands, on the"));
  // The peer has waited, and says so without a release.
  rig.complete(PEER | FULL_BARRIER);
  rig.wait(4, PEER | FULL_BARRIER);
  rig.arrive(4, FULL_BARRIER, ONE, false, Scope::cluster);
  rig.complete(FULL_BARRIER);
  rig.wait(0, FULL_BARRIER, FULL, true, Scope::cluster);
  CHECK(contains(said([&] { rig.store(0, DATA); }),
                 "fence.release (or fence.acq_rel) of scope .cluster or a wider one before the "
                 "relaxed arrive or store of who has waited for cp.async.bulk"));
}

TEST_CASE("a reduction into a peer's shared memory races with what is no atomic of its scope") {
  for (const auto& [scope, by_atomic, races] : {std::tuple{Scope::cluster, true, false},
                                                {Scope::cta, true, true},
                                                {Scope::cluster, false, true}}) {
    Rig rig(2);
    rig.init(4, PEER | FULL_BARRIER);
    rig.init_fence(4);
    rig.store(4, PEER | DATA, ONE);
    rig.cluster_barrier();
    if (by_atomic) {
      rig.strong(4, PEER | DATA, Access::atomic, Order::relaxed, scope);
    } else {
      rig.store(4, PEER | DATA, ONE);
    }
    for (const uint32_t reducer : {0u, 1u}) {
      const Checker::Copy reduce =
          rig.issue(reducer, "red.async.relaxed.cluster", PEER | FULL_BARRIER, 0, ONE, false);
      const std::string report =
          said([&] { rig.checker().copy_writes_shared(reduce, {PEER | DATA, 4}, true); });
      CHECK((report != "") == races);
      if (races) break;
    }
  }
}

TEST_CASE("global memory within a CTA needs a barrier, and a page that nobody writes none") {
  alignas(4096) static uint32_t data[2048];
  Rig rig;
  rig.global(0, data, Access::read);
  rig.global(0, data, Access::write);
  CHECK(said([&] { rig.global(1, data + 32, Access::read); }) == "");
  CHECK(contains(said([&] { rig.global(1, data, Access::read); }), "bar.sync"));
  rig.barrier(ALL);
  CHECK(said([&] { rig.global(1, data, Access::read); }) == "");
  CHECK(contains(said([&] { rig.global(2, data, Access::write); }), "ld.global reads"));
}

TEST_CASE("what a TMA store writes is read behind wait_group, not .read; reductions do not race") {
  alignas(4096) static uint32_t data[2048];
  const auto address = reinterpret_cast<uint64_t>(data);
  for (const bool only_read : {false, true}) {
    Rig rig;
    const Checker::Copy copy = rig.issue(0, "cp.async.bulk.tensor.2d.global", 0, 1);
    rig.checker().copy_writes_global(copy, {{address, 256}}, false);
    rig.checker().bulk_wait(rig.at(0, "cp.async.bulk.wait_group"), ONE, 1, only_read);
    rig.barrier(ALL);
    const std::string report = said([&] { rig.global(1, data, Access::read); });
    CHECK((report == "") == !only_read);
    if (only_read) CHECK(contains(report, "cp.async.bulk.wait_group (without .read)"));
    for (const uint32_t i : {1u, 2u}) {
      const Checker::Copy reduce = rig.issue(i, "cp.reduce.async.bulk", 0, 1);
      CHECK(said([&] { rig.checker().copy_writes_global(reduce, {{address + 512, 64}}, true); }) ==
            "");
    }
    const Checker::Copy store = rig.issue(2, "cp.async.bulk.tensor.2d.global", 0, 2);
    const std::string same_lane =
        said([&] { rig.checker().copy_writes_global(store, {{address + 512, 64}}, false); });
    CHECK(contains(same_lane, "cp.async.bulk.wait_group (without .read)"));
    CHECK(contains(same_lane, "Rule: global-race"));
  }
}

TEST_CASE("TMA reads what was stored to global memory behind a proxy fence of that space") {
  alignas(4096) static uint32_t data[2048];
  for (const bool right_space : {false, true}) {
    Rig rig;
    rig.set_up({FULL_BARRIER}, ALL);
    rig.global(0, data, Access::write);
    rig.proxy_fence(0, FULL, right_space ? Proxy::all : Proxy::shared);
    rig.barrier(ALL);
    const Checker::Copy copy = rig.issue(1, "cp.async.bulk.tensor.2d.shared", FULL_BARRIER);
    const std::string report = said(
        [&] { rig.checker().copy_reads_global(copy, {{reinterpret_cast<uint64_t>(data), 128}}); });
    CHECK((report == "") == right_space);
    if (!right_space) CHECK(contains(report, "for the async proxy"));
    if (!right_space) CHECK(contains(report, "fence.proxy.async.global"));
  }
}

TEST_CASE("between clusters: the proxy fence before a TMA read is the writer's or the reader's") {
  alignas(4096) static uint32_t data[2048];
  for (const int fenced : {0, 1, 2}) {
    const auto shared = std::make_shared<Shared>();
    Rig writer(1, 1, 0, shared), reader(1, 2, 5, shared);
    writer.global(0, data, Access::write);
    if (fenced == 1) writer.proxy_fence(0, FULL, Proxy::all);
    writer.sync_lanes(0);
    writer.global(0, data + 1024, Access::write, ONE, Order::release);
    reader.set_up({FULL_BARRIER}, {0, 1});
    reader.global(0, data + 1024, Access::read, ONE, Order::acquire);
    if (fenced == 2) reader.proxy_fence(0, ONE, Proxy::all);
    const Checker::Copy copy = reader.issue(0, "cp.async.bulk.tensor.2d.shared", FULL_BARRIER);
    const std::string report = said([&] {
      reader.checker().copy_reads_global(copy, {{reinterpret_cast<uint64_t>(data), 128}});
    });
    CHECK((report == "") == (fenced != 0));
    if (fenced != 0) continue;
    CHECK(contains(report, "What would order them: fence.proxy.async.global behind st.global"));
    CHECK(contains(report, "Rule: proxy-raw"));
  }
}

// ---- Programmatic dependent launch --------------------------------------------------------------

TEST_CASE("a programmatic launch accesses global memory behind griddepcontrol.wait") {
  alignas(4096) static uint32_t data[2048];
  const auto address = reinterpret_cast<uint64_t>(data);
  const std::function<void(Rig&)> accesses[] = {
      [](Rig& rig) { rig.global(0, data, Access::read); },
      [](Rig& rig) { rig.global(0, data, Access::write); },
      [](Rig& rig) { rig.global(0, data, Access::atomic, ONE, Order::relaxed); },
      [&](Rig& rig) {
        rig.checker().copy_reads_global(rig.issue(0, "cp.async.cg", 0, 1, FULL, false),
                                        {{address, 64}});
      },
      [&](Rig& rig) {
        rig.checker().copy_reads_global(rig.issue(0, "cp.async.bulk.tensor", FULL_BARRIER),
                                        {{address, 64}});
      },
      [&](Rig& rig) {
        rig.checker().copy_writes_global(rig.issue(0, "cp.async.bulk.tensor", 0, 1),
                                         {{address, 64}}, false);
      },
  };
  for (const auto& access : accesses) {
    for (const int how : {0, 1, 2}) {  // a launch of the ordinary kind; no wait; a wait
      Rig rig;
      if (how != 0) rig.set_programmatic();
      rig.set_up({FULL_BARRIER}, ALL);
      if (how == 2) rig.grid_wait(0);
      const std::string report = said([&] { access(rig); });
      CHECK((report == "") == (how != 1));
      if (how != 1) continue;
      CHECK(contains(report, "the grid before may still be running"));
      CHECK(contains(report, "What would order them: griddepcontrol.wait by warp 0"));
    }
  }
}

TEST_CASE("a programmatic launch may read constants, and shared memory, before it waits") {
  auto* const constant = static_cast<uint32_t*>(allocate(256, "constant table"));
  auto* const variable = static_cast<uint32_t*>(allocate(256, "variable table"));
  Rig rig;
  rig.set_programmatic();
  rig.store(0, DATA);
  CHECK(said([&] { rig.global(0, constant, Access::read); }) == "");
  CHECK(contains(said([&] { rig.global(0, variable, Access::read); }), "variable table"));
  release(constant);
  release(variable);
}

TEST_CASE("griddepcontrol.wait by one lane, or one warp, is passed on by barriers") {
  alignas(4096) static uint32_t data[2048];
  Rig rig;
  rig.set_programmatic();
  rig.grid_wait(0, ONE);
  CHECK(said([&] { rig.global(0, data, Access::read, ONE); }) == "");
  CHECK(contains(said([&] { rig.global(0, data, Access::read); }),
                 "What would order them: bar.warp.sync"));
  rig.sync_lanes(0);
  CHECK(said([&] { rig.global(0, data, Access::read); }) == "");
  CHECK(said([&] { rig.global(1, data, Access::read); }) != "");
  rig.barrier({0, 1}, 1);
  rig.barrier({2, 3}, 2);
  CHECK(said([&] { rig.global(1, data, Access::read); }) == "");
  CHECK(said([&] { rig.global(2, data, Access::read); }) != "");
}

TEST_CASE("griddepcontrol.wait is passed on by an mbarrier: by an arrive, and by copies after it") {
  alignas(4096) static uint32_t data[2048];
  enum { ARRIVE, TMA, CP_ASYNC };
  for (const int how : {ARRIVE, TMA, CP_ASYNC}) {
    for (const bool waited : {false, true}) {  // before the arrive or copy, or after it
      Rig rig;
      rig.set_programmatic();
      rig.set_up({FULL_BARRIER}, ALL);
      if (waited) rig.grid_wait(0);
      if (how == ARRIVE) rig.arrive(0, FULL_BARRIER, FULL);
      if (how == TMA) rig.tma_load(0, DATA, FULL_BARRIER);
      if (how == CP_ASYNC) rig.cp_async_arrive(0, FULL_BARRIER, 1);
      if (!waited) rig.grid_wait(0);
      CHECK(said([&] { rig.global(1, data, Access::write); }) != "");
      rig.complete(FULL_BARRIER);
      rig.wait(1, FULL_BARRIER);
      CHECK((said([&] { rig.global(1, data, Access::write); }) == "") == waited);
      CHECK(said([&] { rig.global(2, data + 64, Access::write); }) != "");
    }
  }
}

TEST_CASE("a multicast after griddepcontrol.wait tells the peer's consumers of it") {
  alignas(4096) static uint32_t data[2048];
  Rig rig(2);
  rig.set_programmatic();
  for (const uint32_t i : {0u, 4u}) {
    rig.init(i, FULL_BARRIER + (i == 0 ? 0 : PEER));
    rig.init_fence(i);
  }
  rig.cluster_barrier();
  rig.grid_wait(0, ONE);
  rig.tma_load(0, DATA + PEER, FULL_BARRIER + PEER);
  rig.complete(FULL_BARRIER + PEER);
  rig.wait(4, FULL_BARRIER + PEER, FULL, false, Scope::cluster);
  CHECK(said([&] { rig.global(4, data, Access::write); }) != "");
  rig.fence(4, Order::acquire, Scope::cluster);
  CHECK(said([&] { rig.global(4, data, Access::write); }) == "");
}

TEST_CASE("griddepcontrol.wait is passed on at the cluster's barrier, and to other clusters") {
  alignas(4096) static uint32_t data[2048];
  for (const bool release : {false, true}) {
    Rig rig(2);
    rig.set_programmatic();
    rig.grid_wait(0);
    rig.cluster_barrier(release);
    CHECK((said([&] { rig.global(4, data, Access::write); }) == "") == release);
  }
  const auto shared = std::make_shared<Shared>();
  Rig first(1, 1, 0, shared), second(1, 1, 1, shared);
  first.set_programmatic();
  first.grid_wait(0);
  first.global(0, data + 1024, Access::write, ONE, Order::release);
  second.global(0, data + 1024, Access::read, ONE, Order::acquire);
  second.set_programmatic();
  CHECK(said([&] { second.global(0, data, Access::read, ONE); }) == "");
}
