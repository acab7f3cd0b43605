// Goal: a transfer that the wheel has given up without ending it never writes into memory that somebody else has by then, nor reads it.
// Method: the engine in its host over a fake wheel whose given-up transfers go on until their store is closed, which waits for the test;
// the wheel's limit is 0.3 s instead of 60.
#include <memory>

#include "engines/mooncake/mooncake_engine.h"
#include "fake_wheel.h"
#include "support.h"

// Asked for by the address sanitizer: the interpreter is never ended, so it gives nothing back.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() { return "leak:libpython\n"; }

namespace mooncake_given_up_test {
namespace {

using namespace mooncake_kv;
using namespace mooncake_kv::mooncake;
using support::Actor;
using support::Entry;
using support::FakeWheel;
using support::waitUntil;
using support::World;
using std::chrono::milliseconds;

constexpr uint8_t OWNERS_NEXT = 0x40;
/** Long enough for a thread to do what it should not. */
constexpr milliseconds A_WHILE{50};

class MooncakeGivenUp : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    MooncakeOptions options = wheel.options();
    options.keysPerCallMax = 1;
    const auto make = [options, parked = std::make_shared<Parked>()] {
      return std::make_shared<MooncakeEngine>(options, parked, milliseconds(200));
    };
    host = EngineHost::open({.traits = {.lanes = {.exists = 1, .get = 3, .put = 1, .control = 1}, .mayHang = true},
                             .make = make,
                             .retryFirst = milliseconds(5),
                             .letGoTimeout = milliseconds(5),
                             .hungAfter = milliseconds(100)});
    waitUntil([&] { return host->state() == EngineState::open; });
  }
  void TearDown() override {
    wheel.letClose(true);
    EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
    waitUntil([&] { return wheel.count("closes") == wheel.count("stores"); });
    EXPECT_EQ(wheel.count("misuses"), 0);
  }

  void submit(Actor& actor, int32_t operation, const std::vector<Entry>& entries) {
    actor.fill(0, operation, entries);
    actor.channel->submit(0);
  }
  /** A get is in the store, and waits for `letReturn` to be given up, when the connection is lost. */
  void loseWithin(Actor& actor) {
    wheel.plan("give up when told");
    submit(actor, layout::OPERATION_GET, {{0, 0}});
    waitUntil([&] { return wheel.count("waiting") == 1; });
    wheel.setHealth(1);
    waitUntil([&] { return host->state() == EngineState::down; });
  }
  /** A new store is in use. */
  void awaitReopening(uint32_t times = 1) {
    waitUntil([&] { return host->status().reopenings >= times && host->state() == EngineState::open; });
  }
  /** What whoever has the block next puts there stays there. */
  void expectUntouched(int32_t block) {
    world.fill(block, OWNERS_NEXT);
    std::this_thread::sleep_for(A_WHILE);
    EXPECT_TRUE(world.holds(block, OWNERS_NEXT));
  }

  FakeWheel wheel;
  /** The first group's values travel as they lie. */
  World world{8, {65'536}};
  std::shared_ptr<EngineHost> host;
};

TEST_F(MooncakeGivenUp, AGetIsAnsweredWhenItsStoreIsClosedAndTheNextOpenSetsUpAnother) {
  wheel.letClose(false);
  wheel.plan("give up");
  Actor actor(host, world.id);
  submit(actor, layout::OPERATION_GET, {{0, 0}});
  awaitReopening();
  EXPECT_NE(host->status().error->problem.find("did not end within"), std::string::npos);
  EXPECT_EQ(wheel.count("stores"), 2);
  EXPECT_GT(wheel.count("lateTransfers"), 0);
  waitUntil([&] { return host->status().hungCalls == 1; });
  Actor other(host, world.id);
  EXPECT_EQ(other.run(layout::OPERATION_GET, {{1, 1}}), (std::vector<int32_t>{65'536}));
  EXPECT_EQ(actor.channel->inFlight(), 1u) << "its store is not closed yet";
  EXPECT_EQ(wheel.count("closes"), 0);

  wheel.letClose(true);
  EXPECT_EQ(actor.take()[1], code::OK);
  EXPECT_EQ(actor.results(0, 1), (std::vector<int32_t>{code::ENGINE_ERROR}));
  EXPECT_EQ(wheel.count("closes"), 1);
  expectUntouched(0);
  EXPECT_EQ(host->status().hungCalls, 0u);
  EXPECT_EQ(host->status().reopenings, 1u);
}

TEST_F(MooncakeGivenUp, APutHoldsItsBlocksAsLong) {
  wheel.letClose(false);
  wheel.plan("give up");
  Actor actor(host, world.id);
  submit(actor, layout::OPERATION_PUT, {{0, 0}, {1, 1}});
  awaitReopening();
  std::this_thread::sleep_for(A_WHILE);
  EXPECT_EQ(actor.channel->inFlight(), 1u);
  wheel.letClose(true);
  EXPECT_EQ(actor.take()[1], code::ENGINE_DOWN) << "the second key was not asked for any more";
  EXPECT_EQ(wheel.count("transfers"), 1);
  const int64_t transfers = wheel.count("lateTransfers");
  std::this_thread::sleep_for(A_WHILE);
  EXPECT_EQ(wheel.count("lateTransfers"), transfers);
}

TEST_F(MooncakeGivenUp, AFailureThatComesAtOnceIsAnsweredAtOnce) {
  wheel.letClose(false);
  Actor actor(host, world.id);
  for (const int32_t operation : {layout::OPERATION_GET, layout::OPERATION_PUT}) {
    wheel.plan("fail");
    EXPECT_EQ(actor.run(operation, {{0, 0}}), (std::vector<int32_t>{code::ENGINE_ERROR}));
  }
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}}), (std::vector<int32_t>{65'536}));
  EXPECT_EQ(host->state(), EngineState::open);
  EXPECT_EQ(wheel.count("stores"), 1);
}

TEST_F(MooncakeGivenUp, ALateAnswerThatIsNoFailureIsAnsweredAtOnce) {
  wheel.letClose(false);
  wheel.plan("wait");
  Actor actor(host, world.id);
  submit(actor, layout::OPERATION_GET, {{0, 0}});
  waitUntil([&] { return host->status().hungCalls == 1; });
  std::this_thread::sleep_for(milliseconds(200));
  wheel.letReturn();
  EXPECT_EQ(actor.take()[1], code::OK);
  EXPECT_EQ(wheel.count("stores"), 1);
}

TEST_F(MooncakeGivenUp, OtherCallsInTheStoreEndFirstAndMakeNoMore) {
  wheel.plan("wait");
  Actor waiting(host, world.id);
  // Of two calls into the store.
  submit(waiting, layout::OPERATION_GET, {{0, 0}, {1, 1}});
  waitUntil([&] { return wheel.count("waiting") == 1; });
  wheel.plan("give up");
  wheel.plan("give up");
  Actor first(host, world.id), second(host, world.id);
  submit(first, layout::OPERATION_GET, {{2, 2}});
  submit(second, layout::OPERATION_GET, {{3, 3}});
  awaitReopening();
  waitUntil([&] { return wheel.count("transfers") == 3; });
  // The second is given up too by then.
  std::this_thread::sleep_for(milliseconds(400));
  EXPECT_EQ(wheel.count("closes"), 0);
  EXPECT_EQ(first.channel->inFlight() + second.channel->inFlight(), 2u);
  wheel.letReturn();
  EXPECT_EQ(waiting.take()[1], code::ENGINE_DOWN);
  first.take();
  second.take();
  EXPECT_EQ(wheel.count("closes"), 1);
  EXPECT_EQ(wheel.count("transfers"), 3);
  expectUntouched(2);
  expectUntouched(3);
}

TEST_F(MooncakeGivenUp, ItsStagingBufferIsNotGivenOutAgain) {
  // Values of 32 small segments, gathered.
  World staged{8, std::vector<uint64_t>(32, 1024)};
  wheel.letClose(false);
  wheel.plan("give up");
  Actor actor(host, staged.id);
  submit(actor, layout::OPERATION_GET, {{0, 0}});
  awaitReopening();
  Actor other(host, staged.id);
  EXPECT_EQ(other.run(layout::OPERATION_GET, {{1, 1}}), (std::vector<int32_t>{32'768}));
  EXPECT_EQ(other.run(layout::OPERATION_GET, {{2, 2}}), (std::vector<int32_t>{32'768}));
  EXPECT_EQ(wheel.timesUsed(0), 1);
  EXPECT_EQ(wheel.timesUsed(1), 2) << "one that nobody writes into is";
  wheel.letClose(true);
  EXPECT_EQ(actor.take()[1], code::OK);
  // Nothing of it went from the buffer into the block.
  expectUntouched(0);
}

TEST_F(MooncakeGivenUp, AStoreThatRetiresGivesNoStagingBufferOut) {
  MooncakeOptions options;
  options.pythonExecutable = wheel.executable;
  options.pythonLibrary = wheel.library;
  options.localHostname = "127.0.0.1";
  const auto pool = std::make_shared<Pool>(Store::setUp(options), 1 << 20);
  {
    const Pool::Visit visit = pool->visit();
    ASSERT_TRUE(visit);
    { EXPECT_TRUE(pool->staging.take()); }
    pool->retire();
    EXPECT_FALSE(pool->staging.take());
    EXPECT_FALSE(pool->visit());
    EXPECT_FALSE(pool->awaitClosed(Pool::Clock::now() + A_WHILE));
  }
  EXPECT_TRUE(pool->awaitClosed(std::nullopt));
}

TEST_F(MooncakeGivenUp, AStoreThatIsParkedMeanwhileIsNotUsedAgain) {
  Actor actor(host, world.id);
  loseWithin(actor);
  EXPECT_EQ(wheel.count("stores"), 1);
  wheel.letReturn();
  EXPECT_EQ(actor.take()[1], code::OK);
  waitUntil([&] { return wheel.count("stores") == 2; });
  wheel.setHealth(0);
  // The new one may have been lost once more meanwhile, and found again.
  waitUntil([&] { return host->state() == EngineState::open; });
  EXPECT_EQ(wheel.count("stores"), 2);
  expectUntouched(0);
}

TEST_F(MooncakeGivenUp, AConnectionThatHasTakenTheStoreOverIsLostWithIt) {
  Actor actor(host, world.id);
  loseWithin(actor);
  wheel.setHealth(0);
  awaitReopening();
  EXPECT_EQ(wheel.count("stores"), 1);
  wheel.letReturn();
  EXPECT_EQ(actor.take()[1], code::OK);
  awaitReopening(2);
  EXPECT_EQ(wheel.count("stores"), 2);
  expectUntouched(0);
}

TEST_F(MooncakeGivenUp, SoIsTheTransferOfASingleValue) {
  for (const ControlOperation operation : {ControlOperation::getValue, ControlOperation::putValue}) {
    const int64_t before = wheel.count("closes");
    wheel.plan("give up");
    const ControlReply reply = host->connection()->engine->control({.operation = operation, .key = "key", .value = {1}});
    EXPECT_EQ(reply.status, code::ENGINE_ERROR);
    EXPECT_EQ(wheel.count("closes"), before + 1);
    awaitReopening(static_cast<uint32_t>(before) + 1);
  }
}

}  // namespace
}  // namespace mooncake_given_up_test
