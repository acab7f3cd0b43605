// Goal: an engine that opens late, not at all, is lost or hangs never holds up anything but itself. Method: a faulty engine
// behind a host and its channel; orders to the engine stand in gates, so no timing decides.
#include "core/engine_host.h"

#include <future>
#include <thread>

#include "faulty_engine.h"

namespace engine_host_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::FaultyEngine;
using support::Faults;
using support::Gate;
using support::waitUntil;
using support::World;
using std::chrono::milliseconds;

Error unreachable() { return Error("UNREACHABLE", "master", "", "it does not answer", "Start it."); }

class EngineHostTest : public testing::Test {
 protected:
  EngineHostTest() : world(8, {64}) {}
  ~EngineHostTest() override {
    // What hangs may go, so that nothing of one test runs on in the next.
    gate.open();
    if (host != nullptr) host->close(std::chrono::minutes(1));
    host.reset();
    waitUntil([&] { return faults->alive.load() == 0; });
  }

  void open(milliseconds openTimeout = std::chrono::minutes(1)) {
    host = EngineHost::open({.traits = {.lanes = {.exists = 1, .get = 2, .put = 1, .control = 1}, .mayHang = true},
                             .make = [faults = faults] { return std::make_shared<FaultyEngine>(faults); },
                             .stateChanged = [changes = changes] { changes->fetch_add(1); },
                             .retryFirst = milliseconds(1),
                             .retryLast = milliseconds(4),
                             .openTimeout = openTimeout,
                             .hungOpensMax = hungOpensMax,
                             .letGoTimeout = letGoTimeout,
                             .hungAfter = milliseconds(0)});
  }
  void waitFor(EngineState state) {
    waitUntil([&] { return host->state() == state; });
  }
  void lose(const std::string& reason) {
    std::lock_guard lock(faults->mutex);
    faults->lost(reason);
  }
  ControlReply call(const std::string& key) {
    std::promise<ControlReply> reply;
    host->call({.operation = ControlOperation::removePrefix, .key = key},
               [&](ControlReply got) { reply.set_value(std::move(got)); });
    return reply.get_future().get();
  }

  Gate gate;
  milliseconds letGoTimeout = std::chrono::minutes(1);
  uint32_t hungOpensMax = 8;
  World world;
  std::shared_ptr<Faults> faults = std::make_shared<Faults>();
  std::shared_ptr<std::atomic<int>> changes = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<EngineHost> host;
};

TEST_F(EngineHostTest, UntilItIsOpenEveryoneIsAnsweredAtOnce) {
  faults->onOpen = [&](int) { gate.pass(); };
  open();
  EXPECT_EQ(host->state(), EngineState::opening);
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}, {1, 1}}), (std::vector<int32_t>{code::ENGINE_DOWN, code::ENGINE_DOWN}));
  EXPECT_EQ(actor.status, code::ENGINE_DOWN);
  EXPECT_EQ(call("x").status, code::ENGINE_DOWN);
  gate.open();
  waitFor(EngineState::open);
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}}), (std::vector<int32_t>{1}));
  EXPECT_EQ(call("x").count, 1);
  waitUntil([&] { return changes->load() == 1; });
  EXPECT_EQ(host->status().reopenings, 0u);
}

TEST_F(EngineHostTest, AWrongConfigurationIsFinalAndReadable) {
  faults->onOpen = [](int) { throw Error("CONFIGURATION", "pythonExecutable", "\"x\"", "it has no wheel", "Install it."); };
  open();
  waitFor(EngineState::failed);
  const EngineHost::Status status = host->status();
  ASSERT_TRUE(status.error.has_value());
  EXPECT_EQ(status.error->code, "CONFIGURATION");
  EXPECT_EQ(status.error->field, "pythonExecutable");
  EXPECT_EQ(status.error->remedy, "Install it.");
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 0}}), (std::vector<int32_t>{code::ENGINE_DOWN}));
  EXPECT_EQ(faults->opens.load(), 1);
}

TEST_F(EngineHostTest, AnUnreachablePoolIsTriedAgain) {
  faults->onOpen = [](int number) {
    if (number < 4) throw unreachable();
  };
  open();
  waitFor(EngineState::open);
  EXPECT_EQ(faults->opens.load(), 4);
  EXPECT_EQ(faults->closes.load(), 0) << "what never opened is not closed";
  EXPECT_EQ(host->status().error->code, "UNREACHABLE");
}

TEST_F(EngineHostTest, ALostEngineIsReopenedWithItsMemory) {
  faults->onOpen = [&](int number) {
    if (number == 2) gate.pass();
  };
  open();
  host->useMemory(world.space->blockMemories(), world.space->valueBytesMax());
  waitFor(EngineState::open);
  Actor actor(host, world.id);
  actor.run(layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(faults->registrations.load(), 1);
  lose("its master is gone");
  EXPECT_EQ(host->state(), EngineState::down);
  EXPECT_NE(host->status().error->problem.find("its master is gone"), std::string::npos);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{code::ENGINE_DOWN}));
  // The old connection ends before the new one begins.
  waitUntil([&] { return gate.waiting.load() == 1; });
  EXPECT_EQ(faults->closes.load(), 1);
  EXPECT_EQ(faults->registrations.load(), 0);
  gate.open();
  waitFor(EngineState::open);
  EXPECT_EQ(faults->registrations.load(), 1) << "before any batch";
  EXPECT_EQ(host->status().reopenings, 1u);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{1}));
}

TEST_F(EngineHostTest, ALateNoticeOfAnEarlierConnectionCountsForNothing) {
  open();
  waitFor(EngineState::open);
  Engine::Lost first;
  {
    std::lock_guard lock(faults->mutex);
    first = faults->lost;
  }
  first("once");
  waitUntil([&] { return host->status().reopenings == 1; });
  first("again");
  EXPECT_EQ(host->state(), EngineState::open);
}

TEST_F(EngineHostTest, HungGetsStopNeitherLookupsNorSavesNorCalls) {
  faults->onRun = [&](int32_t operation) {
    if (operation == layout::OPERATION_GET) gate.pass();
  };
  open();
  waitFor(EngineState::open);
  Actor loader(host, world.id);
  Actor others(host, world.id);
  // More than there are threads: the third waits in the lane.
  for (uint32_t slot = 0; slot < 3; slot++) {
    loader.fill(slot, layout::OPERATION_GET, {{static_cast<int32_t>(slot), 0}});
    loader.channel->submit(slot);
  }
  waitUntil([&] { return gate.waiting.load() == 2; });
  EXPECT_EQ(others.run(layout::OPERATION_EXISTS, {{layout::NONE, 0}}), (std::vector<int32_t>{1}));
  EXPECT_EQ(others.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{1}));
  EXPECT_EQ(others.run(layout::OPERATION_REMOVE, {{layout::NONE, 0}}), (std::vector<int32_t>{1}));
  EXPECT_EQ(call("four").count, 4);
  waitUntil([&] { return host->status().hungCalls == 2; });
  EXPECT_EQ(host->running(), 3u);
}

TEST_F(EngineHostTest, AfterALossGetsHaveThreadsAgain) {
  letGoTimeout = milliseconds(1);
  std::atomic<bool> hang{true};
  faults->onRun = [&](int32_t operation) {
    if (operation == layout::OPERATION_GET && hang.load()) gate.pass();
  };
  open();
  waitFor(EngineState::open);
  Actor loader(host, world.id);
  for (uint32_t slot = 0; slot < 2; slot++) {
    loader.fill(slot, layout::OPERATION_GET, {{static_cast<int32_t>(slot), 0}});
    loader.channel->submit(slot);
  }
  waitUntil([&] { return gate.waiting.load() == 2; });
  hang.store(false);
  lose("its owner is gone");
  // A connection with calls in it is not waited for longer than that, but left to them.
  waitUntil([&] { return host->status().reopenings == 1; });
  EXPECT_EQ(faults->closes.load(), 0);
  Actor other(host, world.id);
  EXPECT_EQ(other.run(layout::OPERATION_GET, {{3, 1}}), (std::vector<int32_t>{1}));
  gate.open();
  EXPECT_EQ(loader.take()[1], code::OK);
  EXPECT_EQ(loader.take()[1], code::OK);
}

TEST_F(EngineHostTest, CloseAndTheEndOfAThreadDoNotWaitForAHungGet) {
  faults->onRun = [&](int32_t) { gate.pass(); };
  open();
  waitFor(EngineState::open);
  auto own = std::make_unique<World>(8, std::vector<uint64_t>{64});
  std::weak_ptr<Memory> region = own->region;
  auto actor = std::make_unique<Actor>(host, own->id);
  actor->fill(0, layout::OPERATION_GET, {{0, 0}});
  actor->channel->submit(0);
  waitUntil([&] { return gate.waiting.load() == 1; });
  EXPECT_EQ(actor->channel->close(), 1u);
  EXPECT_EQ(host->close(milliseconds(1)), 1u);
  EXPECT_EQ(host->close(milliseconds(1)), 1u);
  // The thread that owns channel and hashes ends; then everything of it goes. Sanitizers see who touches it later.
  actor->words.memory()->closeAndWait();
  own->hashes.memory()->closeAndWait();
  std::weak_ptr<Channel> channel = actor->channel;
  actor.reset();
  own.reset();
  EXPECT_FALSE(region.expired()) << "the call may still write into it";
  gate.open();
  waitUntil([&] { return channel.expired(); });
  EXPECT_EQ(host->running(), 0u);
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  waitUntil([&] { return region.expired(); });
  EXPECT_EQ(faults->closes.load(), 1);
}

TEST_F(EngineHostTest, AnOpenThatDoesNotReturnIsGivenUp) {
  faults->onOpen = [&](int number) {
    if (number == 1) gate.pass();
  };
  open(milliseconds(5));
  waitFor(EngineState::open);
  EXPECT_EQ(faults->opens.load(), 2);
  EXPECT_EQ(host->status().hungOpens, 1u);
  gate.open();
  waitUntil([&] { return faults->closes.load() == 1; });
  EXPECT_EQ(host->status().hungOpens, 0u);
  EXPECT_EQ(host->state(), EngineState::open);
}

TEST_F(EngineHostTest, OpensThatHangAreFewAndTheNextComesWhenOneReturns) {
  faults->onOpen = [&](int number) {
    if (number <= 2) gate.pass();
  };
  hungOpensMax = 2;
  open(milliseconds(5));
  waitUntil([&] { return host->status().hungOpens == 2; });
  // Without a limit there would be several more by then.
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(faults->opens.load(), 2);
  EXPECT_EQ(host->state(), EngineState::down);
  gate.open();
  waitFor(EngineState::open);
  EXPECT_EQ(faults->opens.load(), 3);
  waitUntil([&] { return faults->closes.load() == 2; });
  EXPECT_EQ(host->status().hungOpens, 0u);
}

TEST_F(EngineHostTest, CloseWaitsNeitherForAnOpenNorForACloseThatHangs) {
  faults->onOpen = [&](int) { gate.pass(); };
  open();
  waitUntil([&] { return gate.waiting.load() == 1; });
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  EXPECT_EQ(host->state(), EngineState::closed);
  gate.open();
  waitUntil([&] { return faults->closes.load() == 1; });

  Gate closing;
  faults->onOpen = nullptr;
  faults->onClose = [&] { closing.pass(); };
  open();
  waitFor(EngineState::open);
  EXPECT_EQ(host->close(milliseconds(1)), 0u);
  waitUntil([&] { return closing.waiting.load() == 1; });
  host.reset();
  closing.open();
  waitUntil([&] { return faults->alive.load() == 0; });
}

TEST_F(EngineHostTest, RefusedMemoryIsLoud) {
  faults->onRegister = [] { throw Error("REGISTRATION_REFUSED", "segments", "", "locked memory is limited", "Raise it."); };
  open();
  waitFor(EngineState::open);
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 0}}), (std::vector<int32_t>{1})) << "needs no KV memory";
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{code::REGISTRATION_REFUSED}));
  EXPECT_EQ(actor.status, code::REGISTRATION_REFUSED);
  EXPECT_EQ(host->state(), EngineState::failed);
  EXPECT_EQ(host->status().error->remedy, "Raise it.");
}

TEST_F(EngineHostTest, CallsAreBoundedAndFailAlone) {
  faults->onControl = [&] {
    gate.pass();
    throw std::bad_alloc();
  };
  open();
  waitFor(EngineState::open);
  std::atomic<uint32_t> down{0}, failed{0};
  const auto count = [&](ControlReply reply) { (reply.status == code::ENGINE_DOWN ? down : failed).fetch_add(1); };
  for (uint32_t i = 0; i < EngineHost::CALLS_MAX + 3; i++) host->call({.operation = ControlOperation::health}, count);
  EXPECT_EQ(down.load(), 3u);
  EXPECT_EQ(host->status().callsInFlight, EngineHost::CALLS_MAX);
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 0}}), (std::vector<int32_t>{1}));
  gate.open();
  waitUntil([&] { return failed.load() == EngineHost::CALLS_MAX; });
  EXPECT_EQ(down.load(), 3u);
}

TEST(EngineHost, EachClassOfOperationsNeedsThreads) {
  const auto open = [](LaneThreads lanes) {
    return support::errorOf([&] {
      EngineHost::open({.traits = {.lanes = lanes}, .make = [] { return std::make_shared<FaultyEngine>(std::make_shared<Faults>()); }});
    });
  };
  EXPECT_EQ(open({.exists = 1, .get = 1, .put = 1}), "INVALID_VALUE");
  EXPECT_EQ(open({}), "INVALID_VALUE");
  EXPECT_EQ(open({.shared = 1}), "");
}

}  // namespace
}  // namespace engine_host_test
