// Goal: values in memory of a JavaScript thread reach an engine that may hang, byte for byte, and it touches only memory of ours; a
// thread that ends is waited for by nobody. Method: an engine that keeps values in a map and works with memory only that it was told of.
#include "core/transit.h"

#include <map>
#include <numeric>
#include <set>

#include "faulty_engine.h"

namespace transit_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::Gate;
using support::waitUntil;
using support::Words;

/** What all connections share. */
struct Kept {
  std::mutex mutex;
  std::map<std::string, std::vector<uint8_t>> values;
  std::vector<uint32_t> keysOfCalls;
  Engine::Lost lost;
  std::function<void(int32_t operation)> onRun;
  std::function<void()> onOpen;
  std::function<void()> onRegister;
  /** What a call answers as a whole instead of running, after so many that ran. */
  int32_t failure = code::OK;
  size_t runs = SIZE_MAX;
  /** Taken from the results of gets. */
  int32_t missingBytes = 0;
};

class MapEngine final : public Engine {
 public:
  explicit MapEngine(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}

  void open(Lost lost) override {
    if (kept_->onOpen) kept_->onOpen();
    std::lock_guard lock(kept_->mutex);
    kept_->lost = std::move(lost);
  }
  void registerMemory(const Memory& memory) override {
    EXPECT_EQ(memory.kind(), Memory::Kind::memfd);
    if (kept_->onRegister) kept_->onRegister();
    std::lock_guard lock(kept_->mutex);
    known_.insert(&memory);
  }
  void unregisterMemory(const Memory& memory) override {
    std::lock_guard lock(kept_->mutex);
    known_.erase(&memory);
  }
  int32_t run(PoolRequest& request) override {
    if (kept_->onRun) kept_->onRun(request.operation());
    std::lock_guard lock(kept_->mutex);
    if (kept_->keysOfCalls.size() >= kept_->runs) return kept_->failure;
    kept_->keysOfCalls.push_back(request.count());
    for (uint32_t index = 0; index < request.count(); index++) request.setResult(index, move(request, index));
    return code::OK;
  }
  ControlReply control(const ControlRequest&) override { return {}; }
  EngineStatistics statistics() const override { return {}; }

 private:
  int32_t move(PoolRequest& request, uint32_t index) {
    std::vector<uint8_t>& value = kept_->values[std::string(request.key(index))];
    const bool puts = request.operation() == layout::OPERATION_PUT;
    if (puts) value.clear();
    uint64_t moved = 0;
    for (const PoolSegment& segment : request.segments(index)) {
      if (!known_.contains(segment.memory)) return code::ENGINE_ERROR;
      if (puts) {
        value.insert(value.end(), segment.address(), segment.address() + segment.bytes);
      } else if (value.size() < moved + segment.bytes) {
        return code::OBJECT_NOT_FOUND;
      } else {
        std::memcpy(segment.address(), value.data() + moved, segment.bytes);
      }
      moved += segment.bytes;
    }
    request.setTier(index, layout::TIER_MEMORY);
    return static_cast<int32_t>(moved) - (puts ? 0 : kept_->missingBytes);
  }

  const std::shared_ptr<Kept> kept_;
  std::set<const Memory*> known_;
};

constexpr int32_t BLOCKS = 5;

/** KV memory of a thread: group 0 has two segments of a few bytes, group 1 two that together take more than half a buffer. */
class TransitTest : public testing::Test {
 protected:
  static constexpr uint64_t SMALL[] = {48, 16};
  static constexpr uint64_t LARGE[] = {5 << 20, 4 << 20};

  TransitTest() : hashes(static_cast<size_t>(layout::HASH_PAGE_WORDS)) {
    KeySpace::Options options;
    options.hashes = hashes.memory();
    options.prefixes = {"m"};
    options.blockCount = BLOCKS;
    uint64_t offset = 0;
    std::vector<std::pair<uint64_t, uint64_t>> places;
    for (const auto& group : {std::span<const uint64_t>(SMALL), std::span<const uint64_t>(LARGE)}) {
      for (const uint64_t bytes : group) {
        places.emplace_back(offset, bytes);
        offset += bytes * BLOCKS;
      }
    }
    bytes.resize(offset);
    std::iota(bytes.begin(), bytes.end(), uint8_t{3});
    for (size_t i = 0; i < bytes.size(); i += 509) bytes[i] = static_cast<uint8_t>(i / 509);
    memory = Memory::adoptHost(bytes.data(), bytes.size(), nullptr);
    options.groups.resize(2);
    for (size_t i = 0; i < places.size(); i++) {
      options.groups[i / 2].push_back({memory, places[i].first, places[i].second, places[i].second});
    }
    for (int32_t row = 0; row < 2 * BLOCKS; row++) std::memcpy(const_cast<uint8_t*>(hashAt(*hashes.memory(), row)), &row, 4);
    id = keySpaces().add(std::make_shared<KeySpace>(std::move(options)));
  }
  ~TransitTest() override {
    gate.open();
    if (host != nullptr) host->close(std::chrono::minutes(1));
    keySpaces().remove(id);
  }

  void open(size_t buffersMax = 0, uint32_t threads = 1) {
    host = EngineHost::open({.traits = {.lanes = {.exists = 1, .get = threads, .put = threads, .control = 1}, .mayHang = true, .partBytesMin = 64},
                             .make = [kept = kept] { return std::make_shared<MapEngine>(kept); },
                             .retryFirst = std::chrono::milliseconds(1),
                             .retryLast = std::chrono::milliseconds(4),
                             .transitBuffersMax = buffersMax});
    useMemory();
    awaitOpen();
  }
  void useMemory() { host->useMemory(keySpaces().find(id)->blockMemories(), keySpaces().find(id)->valueBytesMax()); }
  void awaitOpen() {
    waitUntil([&] { return host->state() == EngineState::open; });
  }
  /** Block b of a group under row b (group 0) or BLOCKS + b (group 1). */
  static std::vector<support::Entry> all(int32_t group) {
    std::vector<support::Entry> entries;
    for (int32_t block = 0; block < BLOCKS; block++) entries.push_back({block, group * BLOCKS + block, group});
    return entries;
  }
  std::vector<uint8_t> valueOf(int32_t group, int32_t block) const {
    std::vector<uint8_t> value;
    for (const SegmentRule& rule : keySpaces().find(id)->segments(group)) {
      const auto first = bytes.begin() + static_cast<ptrdiff_t>(rule.offset + static_cast<uint64_t>(block) * rule.strideBytes);
      value.insert(value.end(), first, first + static_cast<ptrdiff_t>(rule.bytes));
    }
    return value;
  }
  std::string key(int32_t row) const {
    std::string text;
    EXPECT_TRUE(keySpaces().find(id)->key(0, row, text));
    return text;
  }

  Gate gate;
  Words hashes;
  std::vector<uint8_t> bytes;
  std::shared_ptr<Memory> memory;
  int32_t id = 0;
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
  std::shared_ptr<EngineHost> host;
};

TEST_F(TransitTest, ValuesArriveWholeAndOnlyOurMemoryIsTouched) {
  open();
  Actor actor(host, id);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, all(0)), (std::vector<int32_t>(BLOCKS, 64)));
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, all(1)), (std::vector<int32_t>(BLOCKS, 9 << 20)));
  for (int32_t group : {0, 1}) {
    for (int32_t block = 0; block < BLOCKS; block++) {
      EXPECT_TRUE(kept->values[key(group * BLOCKS + block)] == valueOf(group, block)) << group << " " << block;
    }
  }
  // Small values share a call, and of the large ones a buffer holds one.
  EXPECT_EQ(kept->keysOfCalls, (std::vector<uint32_t>{BLOCKS, 1, 1, 1, 1, 1}));

  const std::vector<uint8_t> before = bytes;
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(actor.run(layout::OPERATION_GET, all(0)), (std::vector<int32_t>(BLOCKS, 64)));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, all(1)), (std::vector<int32_t>(BLOCKS, 9 << 20)));
  EXPECT_EQ(actor.tier(0, BLOCKS - 1), layout::TIER_MEMORY);
  EXPECT_TRUE(bytes == before);
}

TEST_F(TransitTest, AValueThatIsMissingLeavesItsBlockAndNoOther) {
  open();
  Actor actor(host, id);
  actor.run(layout::OPERATION_PUT, all(0));
  kept->values.erase(key(1));
  const std::vector<uint8_t> before = bytes;
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{1, 1}, {2, 2}}), (std::vector<int32_t>{code::OBJECT_NOT_FOUND, 64}));
  EXPECT_EQ(valueOf(0, 1), (std::vector<uint8_t>(64)));
  EXPECT_TRUE(std::equal(bytes.begin() + 2 * 48, bytes.begin() + 3 * 48, before.begin() + 2 * 48));
}

TEST_F(TransitTest, ANewConnectionIsToldOfTheMemory) {
  open();
  Actor actor(host, id);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{64}));
  kept->lost("the test says so");
  awaitOpen();
  waitUntil([&] { return host->status().reopenings == 1 && host->state() == EngineState::open; });
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}}), (std::vector<int32_t>{64}));
}

TEST_F(TransitTest, AThreadThatEndsWaitsForNoCallAndGetsNoByte) {
  open();
  Actor actor(host, id);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{64}));
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  kept->onRun = [&](int32_t) { gate.pass(); };
  actor.fill(0, layout::OPERATION_GET, {{0, 0}});
  actor.channel->submit(0);
  waitUntil([&] { return gate.waiting.load() == 1; });
  memory->closeAndWait();
  gate.open();
  EXPECT_EQ(actor.take()[1], code::CLOSED);
  EXPECT_EQ(actor.results(0, 1), (std::vector<int32_t>{code::CLOSED}));
  EXPECT_TRUE(bytes == std::vector<uint8_t>(bytes.size()));
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{1, 1}}), (std::vector<int32_t>{code::CLOSED}));
  EXPECT_FALSE(kept->values.contains(key(1)));
}

TEST_F(TransitTest, WhatWasTakenBackIsReadAndWrittenByNobody) {
  // The engine is closed with calls in it, as by a stop that has waited long enough, and the memory is its user's again.
  open(0, 1);
  Actor actor(host, id);
  kept->onRun = [&](int32_t) { gate.pass(); };
  actor.fill(0, layout::OPERATION_PUT, {{0, BLOCKS, 1}, {1, BLOCKS + 1, 1}});
  actor.channel->submit(0);
  waitUntil([&] { return gate.waiting.load() == 1; });
  EXPECT_EQ(host->close(std::chrono::milliseconds(0)), 1u);
  const std::vector<uint8_t> first = valueOf(1, 0);
  memory->closeAndWait();
  std::fill(bytes.begin(), bytes.end(), uint8_t{99});
  gate.open();
  EXPECT_EQ(actor.take()[1], code::CLOSED);
  EXPECT_EQ(actor.results(0, 2), (std::vector<int32_t>{code::CLOSED, code::CLOSED}));
  EXPECT_TRUE(kept->values[key(BLOCKS)] == first);
  EXPECT_FALSE(kept->values.contains(key(BLOCKS + 1)));
}

TEST_F(TransitTest, ManyCallsAtATimeHaveEachTheirBuffer) {
  open(0, 4);
  Actor puts(host, id), gets(host, id);
  puts.run(layout::OPERATION_PUT, all(0));
  for (int round = 0; round < 50; round++) {
    // Puts read blocks 0 and 1; each get has a block of its own.
    for (uint32_t slot = 0; slot < 3; slot++) {
      puts.fill(slot, layout::OPERATION_PUT, {{0, static_cast<int32_t>(slot)}, {1, BLOCKS + static_cast<int32_t>(slot)}});
      gets.fill(slot, layout::OPERATION_GET, {{2 + static_cast<int32_t>(slot), 4}});
      puts.channel->submit(slot);
      gets.channel->submit(slot);
    }
    for (uint32_t slot = 0; slot < 3; slot++) {
      puts.take();
      gets.take();
    }
    for (uint32_t slot = 0; slot < 3; slot++) {
      EXPECT_EQ(puts.results(slot, 2), (std::vector<int32_t>{64, 64}));
      EXPECT_EQ(gets.results(slot, 1), (std::vector<int32_t>{64}));
    }
  }
  EXPECT_EQ(host->status().transitRefusals, 0u);
}

TEST_F(TransitTest, AFailureOfTheEngineOrAShortValueLeavesNoKeyLoaded) {
  open();
  Actor actor(host, id);
  actor.run(layout::OPERATION_PUT, all(1));
  kept->runs = kept->keysOfCalls.size() + 1;
  kept->failure = code::ENGINE_DOWN;
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, BLOCKS, 1}, {1, BLOCKS + 1, 1}}),
            (std::vector<int32_t>{code::ENGINE_DOWN, code::ENGINE_DOWN}));
  EXPECT_EQ(actor.status, code::ENGINE_DOWN);
  kept->runs = SIZE_MAX;
  kept->onRun = [](int32_t) { throw std::bad_alloc(); };
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, BLOCKS, 1}}), (std::vector<int32_t>{code::ENGINE_ERROR}));
  kept->onRun = nullptr;
  kept->missingBytes = 1;
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, BLOCKS, 1}}), (std::vector<int32_t>{code::ENGINE_ERROR}));
  EXPECT_EQ(actor.status, code::OK);
}

TEST_F(TransitTest, MemoryThatTheEngineRefusesIsLoudAtItsStartAndLaterFailsItsKeys) {
  std::atomic<int> left{0};
  kept->onRegister = [&] {
    if (left.fetch_sub(1) <= 0) throw Error("REGISTRATION_REFUSED", "segments", "", "locked memory is limited", "Raise it.");
  };
  kept->onOpen = [&] { gate.pass(); };
  host = EngineHost::open({.traits = {.lanes = {.shared = 2}, .mayHang = true}, .make = [&] { return std::make_shared<MapEngine>(kept); }});
  // It is named while the engine opens already.
  waitUntil([&] { return gate.waiting.load() == 1; });
  useMemory();
  gate.open();
  waitUntil([&] { return host->state() == EngineState::failed; });
  EXPECT_EQ(host->status().error->remedy, "Raise it.");
  host->close(std::chrono::minutes(1));

  // One that is named later still, by the first call.
  host = EngineHost::open({.traits = {.lanes = {.shared = 2}, .mayHang = true}, .make = [&] { return std::make_shared<MapEngine>(kept); }});
  awaitOpen();
  {
    Actor actor(host, id);
    EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{code::REGISTRATION_REFUSED}));
    EXPECT_EQ(host->state(), EngineState::failed);
    host->close(std::chrono::minutes(1));
  }

  left = 1;
  open();
  Actor actor(host, id);
  // With the buffer that it took at its start.
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{64}));
  const Transit::Lease only = host->transit().take(1);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{code::ENGINE_ERROR}));
  EXPECT_EQ(host->state(), EngineState::open);
  EXPECT_EQ(host->status().transitRefusals, 1u);
}

TEST_F(TransitTest, WhileCallsHangInAllBuffersKeysFailAlone) {
  open(1);
  Actor actor(host, id);
  kept->onRun = [&](int32_t operation) {
    if (operation == layout::OPERATION_PUT) gate.pass();
  };
  actor.fill(0, layout::OPERATION_PUT, {{0, 0}});
  actor.channel->submit(0);
  waitUntil([&] { return gate.waiting.load() == 1; });
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}}, 1), (std::vector<int32_t>{code::ENGINE_ERROR}));
  EXPECT_EQ(actor.status, code::OK);
  EXPECT_EQ(host->status().transitRefusals, 1u);
  gate.open();
  actor.take();
  EXPECT_EQ(actor.results(0, 1), (std::vector<int32_t>{64}));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{0, 0}}, 1), (std::vector<int32_t>{64}));
}

TEST(Transit, BuffersAreFewAndALargerOneTakesTheirPlace) {
  Transit transit(2, 4096);
  {
    const Transit::Lease first = transit.take(1), second = transit.take(4096);
    EXPECT_EQ(first.memory()->bytes(), 4096u);
    EXPECT_NE(first.memory(), second.memory());
    EXPECT_FALSE(transit.take(1));
  }
  {
    const Transit::Lease large = transit.take(5000);
    EXPECT_GE(large.memory()->bytes(), 5000u);
    const Transit::Lease small = transit.take(1);
    EXPECT_TRUE(small);
    EXPECT_FALSE(transit.take(1));
  }
  // The smallest that fits.
  EXPECT_EQ(transit.take(1).memory()->bytes(), 4096u);
  EXPECT_EQ(transit.refusals(), 2u);
  // No system has that much, and a place is not lost by it.
  Transit other(1);
  for (int time = 0; time < 3; time++) EXPECT_FALSE(other.take(uint64_t{1} << 60));
  Transit::Lease dropped = other.take(1);
  dropped.drop();
  EXPECT_TRUE(other.take(1));
  EXPECT_EQ(other.refusals(), 4u);
}

}  // namespace
}  // namespace transit_test
