// Goal: a get counts only if nothing was removed under it: neither a value that travels as it lies nor a gathered one, nor one of the
// control calls; a value that is brought from disk into memory meanwhile counts. Method: the engine in its host over a fake wheel that
// tells before and after each transfer what the test wants told.
#include <memory>

#include "core/control_call.h"
#include "engines/mooncake/mooncake_engine.h"
#include "fake_wheel.h"
#include "support.h"

namespace {

using namespace mooncake_kv;
using namespace mooncake_kv::mooncake;
using support::Actor;
using support::FakeWheel;
using support::waitUntil;
using support::World;

constexpr uint8_t FORMER = 0x40;
constexpr uint8_t ARRIVED = 0x11;

class MooncakeRemoved : public testing::Test {
 protected:
  void SetUp() override {
    options.reportTiers = true;
    const auto make = [this, parked = std::make_shared<Parked>()] { return std::make_shared<MooncakeEngine>(options, parked); };
    host = EngineHost::open({.traits = {.lanes = {.exists = 1, .get = 1, .put = 1, .control = 1}, .mayHang = true}, .make = make});
    waitUntil([&] { return host->state() == EngineState::open; });
  }
  void TearDown() override { EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u); }

  /** Whether block 0 has what the fake wheel writes in a get. */
  static bool arrivedIn(const World& in) {
    for (const SegmentRule& rule : in.space->segments(0)) {
      for (uint64_t i = 0; i < rule.bytes; i++) {
        if (rule.at(0)[i] != ARRIVED) return false;
      }
    }
    return true;
  }
  /** The result of a get of block 0 whose replicas were told so. */
  int32_t get(const std::string& before, const std::string& after) {
    wheel.tell(before);
    wheel.tell(after);
    world.fill(0, FORMER);
    Actor actor(host, world.id);
    return actor.run(layout::OPERATION_GET, {{0, 0}})[0];
  }
  void expectWhole(const std::string& before, const std::string& after) {
    EXPECT_EQ(get(before, after), BYTES) << before << " -> " << after;
    EXPECT_TRUE(arrivedIn(world));
  }
  void expectRemoved(const std::string& before, const std::string& after) {
    EXPECT_EQ(get(before, after), code::REMOVED_UNDER_READ) << before << " -> " << after;
  }

  static constexpr int32_t BYTES = 65'536;
  FakeWheel wheel;
  MooncakeOptions options = wheel.options();
  World world{8, {BYTES}};
  std::shared_ptr<EngineHost> host;
};

TEST_F(MooncakeRemoved, AValueThatStaysWhereItIsArrives) {
  expectWhole("memory:a:1:8", "memory:a:1:8");
  expectWhole("memory:a:18446744073709551615:8", "memory:a:18446744073709551615:8");
  expectWhole("disk:f:8", "disk:f:8");
  expectWhole("local_disk", "local_disk");
}

TEST_F(MooncakeRemoved, AValueThatIsGoneOrElsewhereAfterTheTransferHasNotArrived) {
  expectRemoved("memory:a:1:8", "");
  expectRemoved("memory:a:1:8", "memory:a:2:8");
  expectRemoved("memory:a:1:8", "memory:b:1:8");
  expectRemoved("memory:a:1:8", "memory:a:1:9");
  expectRemoved("memory:a:1:8", "writing:memory:a:1:8");
  expectRemoved("disk:f:8", "disk:g:8");
  expectRemoved("local_disk", "memory:a:1:8");
}

TEST_F(MooncakeRemoved, AValueThatIsNotWholeAtFirstIsAMissWithoutATransfer) {
  Actor actor(host, world.id);
  for (const char* before : {"", "writing:memory:a:1:8"}) {
    wheel.tell(before);
    EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}})[0], code::OBJECT_NOT_FOUND);
  }
  EXPECT_EQ(wheel.count("transfers"), 0);
}

TEST_F(MooncakeRemoved, AValueThatComesFromDiskIntoMemoryArrives) {
  expectWhole("disk:f:8", "memory:a:1:8 disk:f:8");
  expectWhole("local_disk", "memory:a:1:8 local_disk");
  expectWhole("memory:a:1:8", "memory:a:1:8 memory:b:1:8");
}

TEST_F(MooncakeRemoved, MemoryThatIsGivenUpUnderTheReaderIsNoValueThoughTheDiskHasIt) {
  expectRemoved("memory:a:1:8 local_disk", "local_disk");
  expectRemoved("memory:a:1:8 memory:b:1:8", "memory:b:1:8");
}

TEST_F(MooncakeRemoved, OfACallOnlyTheKeysThatArrivedAreAskedAgain) {
  wheel.plan("fail");
  wheel.tell("memory:a:1:8");
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}})[0], code::ENGINE_ERROR);
  // What was planned for a second question is still there for the next get's first.
  expectWhole("memory:a:1:8", "memory:a:1:8");
}

TEST_F(MooncakeRemoved, AGatheredValueReachesItsBlockOnlyWhenItCounts) {
  World small{8, {4096, 4096, 4096}};
  Actor actor(host, small.id);
  small.fill(0, FORMER);
  wheel.tell("memory:a:1:8");
  wheel.tell("memory:a:2:8");
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}})[0], code::REMOVED_UNDER_READ);
  EXPECT_TRUE(small.holds(0, FORMER));
  EXPECT_GT(actor.run(layout::OPERATION_GET, {{0, 0}})[0], 0);
  EXPECT_TRUE(arrivedIn(small));
}

TEST_F(MooncakeRemoved, AControlCallSaysSo) {
  const auto ask = [&] {
    std::shared_ptr<EngineConnection> connection = host->connection();
    return connection->engine->control({.operation = ControlOperation::getValue, .key = "identity"});
  };
  EXPECT_EQ(ask().status, code::OK);
  wheel.tell("memory:a:1:8");
  wheel.tell("");
  EXPECT_EQ(ask().status, code::REMOVED_UNDER_READ);
}

}  // namespace
