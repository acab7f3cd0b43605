// Batches through a channel: validation, completion order and content, closing, and what happens when memory or engine go.
#include "core/channel.h"

#include <future>

#include "support.h"

namespace channel_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::World;

/** Blocks until the test lets it go on; the result of each key is its index plus a base. */
class GatedEngine final : public Engine {
 public:
  explicit GatedEngine(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  int32_t run(PoolRequest& request) override {
    gate_.wait();
    // Before the results are written, so that it does not order them among the threads.
    arrived.fetch_add(1);
    support::waitUntil([&] { return arrived.load() >= partsToMeet.load(); });
    if (request.operation() == layout::OPERATION_REMOVE) throw std::bad_alloc();
    for (uint32_t index = 0; index < request.count(); index++) {
      // The number of the row is in the digest.
      request.setResult(index, 100 + std::stoi(std::string(request.key(index)).substr(request.key(index).find('@', 6) + 1, 2), nullptr, 16));
    }
    // Relaxed, so that it orders nothing that the channel has to order.
    parts.fetch_add(1, std::memory_order_relaxed);
    return request.operation() == layout::OPERATION_EXISTS ? code::ENGINE_DOWN : code::OK;
  }
  ControlReply control(const ControlRequest&) override { return {}; }
  EngineStatistics statistics() const override { return {}; }

  std::atomic<int> parts{0};
  std::atomic<int> arrived{0};
  /** Every part waits until so many have begun: more than one makes their threads differ. */
  std::atomic<int> partsToMeet{0};

 private:
  const std::shared_future<void> gate_;
};

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() : world(8, {64}) { open(1); }
  void open(uint32_t threads) {
    auto made = std::make_shared<GatedEngine>(gate.get_future().share());
    engine = made.get();
    host = EngineHost::open({.traits = {.lanes = {.shared = threads}, .partBytesMin = 1 << 20, .partKeysMin = 2}, .make = [made] { return made; }});
  }
  void letGo() { gate.set_value(); }

  std::promise<void> gate;
  World world;
  GatedEngine* engine = nullptr;
  std::shared_ptr<EngineHost> host;
};

TEST_F(ChannelTest, CompletionsCarryResultsStatusAndTag) {
  Actor actor(host, world.id);
  const int wakesBefore = support::wakes.load();
  actor.fill(2, layout::OPERATION_PUT, {{0, 0}, {1, 1}}, 31);
  actor.channel->submit(2);
  actor.fill(0, layout::OPERATION_EXISTS, {{layout::NONE, 2}}, 32);
  actor.channel->submit(0);
  EXPECT_EQ(actor.channel->inFlight(), 2u);
  EXPECT_EQ(host->running(), 2u);
  letGo();
  EXPECT_EQ(actor.take(), (std::array<int32_t, 3>{2, code::OK, 31}));
  EXPECT_EQ(actor.results(2, 2), (std::vector<int32_t>{100, 101}));
  EXPECT_EQ(actor.headerOf(2)[layout::BATCH_STATE_WORD], layout::BATCH_STATE_DONE);
  EXPECT_EQ(actor.take(), (std::array<int32_t, 3>{0, code::ENGINE_DOWN, 32}));
  EXPECT_EQ(actor.headerOf(0)[layout::BATCH_STATUS], code::ENGINE_DOWN);
  EXPECT_EQ(host->running(), 0u);
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  EXPECT_EQ(support::wakes.load(), wakesBefore + 2);
}

TEST_F(ChannelTest, RingWrapsManyTimes) {
  letGo();
  Actor actor(host, world.id, 3);
  for (int32_t round = 0; round < 200; round++) {
    for (uint32_t slot = 0; slot < 3; slot++) {
      actor.fill(slot, layout::OPERATION_PUT, {{0, 0}}, round * 3 + static_cast<int32_t>(slot));
      actor.channel->submit(slot);
    }
    for (int32_t slot = 0; slot < 3; slot++) EXPECT_EQ(actor.take()[2], round * 3 + slot);
  }
}

TEST_F(ChannelTest, AnEngineThatThrowsFailsItsBatch) {
  letGo();
  Actor actor(host, world.id);
  EXPECT_EQ(actor.run(layout::OPERATION_REMOVE, {{layout::NONE, 0}}), (std::vector<int32_t>{code::ENGINE_ERROR}));
  EXPECT_EQ(actor.status, code::ENGINE_ERROR);
}

TEST_F(ChannelTest, WrongSubmitsAreRefusedAndLeaveNothingInFlight) {
  Actor actor(host, world.id);
  const auto refusal = [&](int64_t slot) { return support::errorOf([&] { actor.channel->submit(slot); }); };
  EXPECT_EQ(refusal(4), "INVALID_VALUE");
  EXPECT_EQ(refusal(-1), "INVALID_VALUE");
  EXPECT_EQ(refusal(0), "INVALID_VALUE") << "its state is FREE";
  actor.fill(0, 9, {{0, 0}});
  EXPECT_EQ(refusal(0), "INVALID_VALUE");
  actor.fill(0, layout::OPERATION_REMOVE_ALL, {{0, 0}});
  EXPECT_EQ(refusal(0), "INVALID_VALUE");
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.headerOf(0)[layout::BATCH_COUNT] = 65;
  EXPECT_EQ(refusal(0), "INVALID_VALUE");
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.headerOf(0)[layout::BATCH_KEY_SPACE] = 1 << 30;
  EXPECT_EQ(refusal(0), "INVALID_VALUE");
  EXPECT_EQ(actor.channel->inFlight(), 0u);
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.channel->submit(0);
  EXPECT_EQ(refusal(0), "INVALID_VALUE") << "in flight already";
  letGo();
  actor.take();
  // Would hang had a refused submit stayed inside the memory.
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  actor.words.memory()->closeAndWait();
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(refusal(0), "CLOSED");
}

TEST_F(ChannelTest, UntakenCompletionsPushBack) {
  letGo();
  Actor actor(host, world.id, 1);
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.channel->submit(0);
  support::waitUntil([&] { return actor.channel->inFlight() == 0; });
  support::waitUntil([&] { return std::atomic_ref<int32_t>(actor.words[layout::CHANNEL_TAIL_WORD]).load() == 1; });
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(support::errorOf([&] { actor.channel->submit(0); }), "CAPACITY");
  actor.take();
  actor.channel->submit(0);
  EXPECT_EQ(actor.take()[1], code::OK);
}

TEST_F(ChannelTest, ClosedChannelRefusesAndClosedEngineAnswersClosed) {
  Actor actor(host, world.id);
  Actor other(host, world.id);
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.channel->submit(0);
  EXPECT_EQ(actor.channel->close(), 1u);
  actor.fill(1, layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(support::errorOf([&] { actor.channel->submit(1); }), "CLOSED");
  EXPECT_EQ(host->close(std::chrono::milliseconds(1)), 1u);
  EXPECT_EQ(other.run(layout::OPERATION_PUT, {{0, 0}, {1, 1}}), (std::vector<int32_t>{code::CLOSED, code::CLOSED}));
  EXPECT_EQ(other.status, code::CLOSED);
  letGo();
  EXPECT_EQ(actor.take()[1], code::OK);
  EXPECT_EQ(actor.channel->close(), 0u);
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
}

TEST_F(ChannelTest, LargeBatchesAreSplitAmongThreads) {
  gate = {};
  World large(4, {1 << 20});
  open(3);
  engine->partsToMeet.store(3);
  letGo();
  Actor actor(host, large.id);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}, {1, 1}, {2, 2}, {3, 3}}), (std::vector<int32_t>{100, 101, 102, 103}));
  EXPECT_EQ(engine->parts.load(), 3);
  actor.run(layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(engine->parts.load(), 4);
}

TEST_F(ChannelTest, LargeLookupsAreSplitAmongThreads) {
  gate = {};
  open(3);
  engine->partsToMeet.store(2);
  letGo();
  Actor actor(host, world.id);
  const int32_t none = layout::NONE;
  actor.run(layout::OPERATION_EXISTS, {{none, 0}, {none, 1}, {none, 2}, {none, 3}, {none, 4}});
  EXPECT_EQ(engine->parts.load(), 2);
  actor.run(layout::OPERATION_EXISTS, {{none, 0}, {none, 1}, {none, 2}});
  EXPECT_EQ(engine->parts.load(), 3);
}

/** Of two keys each part fails in its own way, one of them well after the other. */
class FailingEngine final : public Engine {
 public:
  explicit FailingEngine(uint32_t last) : last_(last) {}
  int32_t run(PoolRequest& request) override {
    const uint32_t part = request.key(0).find("@00") == std::string_view::npos ? 1 : 0;
    if (part == last_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (part == 1) throw std::bad_alloc();
    return code::ENGINE_DOWN;
  }
  ControlReply control(const ControlRequest&) override { return {}; }
  EngineStatistics statistics() const override { return {}; }

 private:
  const uint32_t last_;
};

TEST_F(ChannelTest, WhichPartEndsLastDoesNotDecideTheStatus) {
  for (const uint32_t last : {0u, 1u}) {
    const auto failing = std::make_shared<FailingEngine>(last);
    const auto its = EngineHost::open({.traits = {.lanes = {.shared = 2}, .partKeysMin = 1}, .make = [failing] { return failing; }});
    Actor actor(its, world.id);
    actor.fill(0, layout::OPERATION_EXISTS, {{layout::NONE, 0}, {layout::NONE, 1}});
    actor.channel->submit(0);
    EXPECT_EQ(actor.take()[1], code::ENGINE_DOWN);
    EXPECT_EQ(actor.results(0, 2), (std::vector<int32_t>{code::ENGINE_DOWN, code::ENGINE_ERROR}));
  }
}

TEST_F(ChannelTest, BatchesHoldWhatTheyUse) {
  // Everything is let go while a batch is in flight; the sanitizers show a use of freed memory.
  auto actor = std::make_unique<Actor>(host, world.id);
  actor->fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor->channel->submit(0);
  std::weak_ptr<Channel> channel = actor->channel;
  std::weak_ptr<EngineHost> engineHost = host;
  actor->channel.reset();
  host.reset();
  std::thread owner([&] { actor->words.memory()->closeAndWait(); });
  letGo();
  owner.join();
  actor.reset();
  // The last batch ends its engine on the engine's own thread.
  support::waitUntil([&] { return channel.expired() && engineHost.expired(); });
}

TEST_F(ChannelTest, AChannelMustFitItsMemory) {
  support::Words words(layout::channelWords(4, 64) + 9);
  const auto open = [&](int64_t offset, int64_t slots, int64_t keys) {
    return support::errorOf([&] { Channel::open({host, words.memory(), offset, slots, keys, 1, support::countWake}); });
  };
  EXPECT_EQ(open(9, 4, 64), "");
  EXPECT_EQ(open(10, 4, 64), "INVALID_VALUE");
  EXPECT_EQ(open(-1, 4, 64), "INVALID_VALUE");
  EXPECT_EQ(open(0, 0, 64), "INVALID_VALUE");
  EXPECT_EQ(open(0, 4, 0), "INVALID_VALUE");
  EXPECT_EQ(open(0, int64_t{1} << 40, 64), "INVALID_VALUE");
}

}  // namespace
}  // namespace channel_test
