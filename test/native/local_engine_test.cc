// The local engine through a channel: operations and their codes, the bound, the order of eviction, checksums, shared pools.
#include "engines/local/local_engine.h"

#include "engines/open_engine.h"
#include "support.h"

namespace local_engine_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::Entry;
using support::World;

constexpr uint64_t ROOM = 64 << 20;
int poolNumber = 0;

class LocalEngineTest : public testing::Test {
 protected:
  LocalEngineTest() : world(16, {1000, 24}), name("test-" + std::to_string(++poolNumber)) {}
  std::shared_ptr<EngineHost> open(uint64_t bytesMax = ROOM, bool verify = true) {
    return openEngine(LocalOptions{name, bytesMax, 1, verify});
  }
  /** Bytes of the pool that one value of the world takes. */
  uint64_t footprint(uint64_t valueBytes = 1024) const {
    return local::Buffers::capacityFor(valueBytes) + local::Value::overheadBytes(world.key(0).size());
  }

  World world;
  const std::string name;
};

TEST_F(LocalEngineTest, PutExistsGetRemove) {
  auto host = open();
  Actor actor(host, world.id);
  world.fill(3, 40);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 5}}), (std::vector<int32_t>{0}));
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{3, 5}}), (std::vector<int32_t>{1024}));
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 5}, {layout::NONE, 6}}), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{4, 5}, {5, 6}}), (std::vector<int32_t>{1024, code::OBJECT_NOT_FOUND}));
  EXPECT_EQ(actor.tier(0, 0), layout::TIER_MEMORY | layout::CHECK_VERIFIED);
  EXPECT_EQ(actor.tier(0, 1), layout::TIER_UNKNOWN);
  EXPECT_TRUE(world.holds(4, 40));
  EXPECT_EQ(actor.run(layout::OPERATION_REMOVE, {{layout::NONE, 5}, {layout::NONE, 5}}).size(), 2u);
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{4, 5}}), (std::vector<int32_t>{code::OBJECT_NOT_FOUND}));
  const EngineStatistics statistics = host->statistics();
  EXPECT_EQ(statistics.keys, 0u);
  EXPECT_EQ(statistics.bytesUsed, 0u);
  EXPECT_EQ(statistics.puts, 1u);
  EXPECT_EQ(statistics.gets, 3u);
  EXPECT_EQ(statistics.getMisses, 2u);
}

TEST_F(LocalEngineTest, EntriesOutOfRangeFailAlone) {
  auto host = open();
  Actor actor(host, world.id);
  const std::vector<Entry> entries = {{16, 0}, {-1, 0}, {0, -1}, {0, 1 << 20}, {0, 0, 1}, {0, 0, 0, 1}, {0, 0, 0, -1}, {2, 2}};
  std::vector<int32_t> expected(7, code::BAD_ENTRY);
  expected.push_back(1024);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, entries), expected);
  EXPECT_EQ(actor.status, code::OK);
  EXPECT_EQ(actor.run(layout::OPERATION_GET, entries), expected);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{layout::NONE, -1}, {layout::NONE, 2}}), (std::vector<int32_t>{code::BAD_ENTRY, 1}));
}

TEST_F(LocalEngineTest, FirstWriterWins) {
  auto host = open();
  Actor actor(host, world.id);
  world.fill(0, 1);
  world.fill(1, 99);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 5}}), (std::vector<int32_t>{1024}));
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{1, 5}}), (std::vector<int32_t>{1024}));
  actor.run(layout::OPERATION_GET, {{2, 5}});
  EXPECT_TRUE(world.holds(2, 1));
}

TEST_F(LocalEngineTest, APutOfAPresentKeyTakesNoRoom) {
  auto host = open(2 * footprint());
  Actor actor(host, world.id);
  const std::vector<Entry> both = {{0, 0}, {1, 1}};
  for (int round = 0; round < 3; round++) EXPECT_EQ(actor.run(layout::OPERATION_PUT, both), (std::vector<int32_t>{1024, 1024}));
  EXPECT_EQ(host->statistics().evictions, 0u);
}

TEST_F(LocalEngineTest, OfTwoWritersAtATimeTheFirstToFinishWins) {
  local::Pool pool(ROOM);
  auto first = pool.allocate("key", 4);
  auto second = pool.allocate("key", 4);
  std::memcpy(first->data(), "one", 4);
  std::memcpy(second->data(), "two", 4);
  EXPECT_EQ(pool.find("key", pool.takeTicks(1)), nullptr) << "neither is complete";
  pool.insert(std::move(first), pool.takeTicks(1));
  pool.insert(std::move(second), pool.takeTicks(1));
  EXPECT_EQ(pool.keyCount(), 1u);
  EXPECT_STREQ(reinterpret_cast<const char*>(pool.find("key", pool.takeTicks(1))->data()), "one");
}

TEST_F(LocalEngineTest, OtherSizesAreRefusedAndWriteNothing) {
  auto host = open();
  World smaller(4, {1000});
  World larger(4, {1000, 25});
  Actor actor(host, world.id);
  Actor small(host, smaller.id);
  Actor large(host, larger.id);
  actor.run(layout::OPERATION_PUT, {{0, 5}});
  smaller.fill(1, 77);
  EXPECT_EQ(small.run(layout::OPERATION_GET, {{1, 5}}), (std::vector<int32_t>{code::BUFFER_SMALLER}));
  EXPECT_TRUE(smaller.holds(1, 77));
  EXPECT_EQ(large.run(layout::OPERATION_GET, {{1, 5}}), (std::vector<int32_t>{code::BUFFER_LARGER}));
}

TEST_F(LocalEngineTest, EvictsWhatWasNotUsedLongest) {
  auto host = open(4 * footprint());
  Actor actor(host, world.id);
  for (int32_t row = 0; row < 4; row++) ASSERT_EQ(actor.run(layout::OPERATION_PUT, {{row, row}})[0], 1024);
  EXPECT_EQ(host->statistics().bytesUsed, 4 * footprint());
  actor.run(layout::OPERATION_GET, {{9, 0}});
  actor.run(layout::OPERATION_EXISTS, {{layout::NONE, 1}});
  ASSERT_EQ(actor.run(layout::OPERATION_PUT, {{4, 4}})[0], 1024);
  ASSERT_EQ(actor.run(layout::OPERATION_PUT, {{5, 5}})[0], 1024);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{-1, 0}, {-1, 1}, {-1, 2}, {-1, 3}, {-1, 4}, {-1, 5}}),
            (std::vector<int32_t>{1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(host->statistics().evictions, 2u);
  EXPECT_EQ(host->statistics().bytesUsed, 4 * footprint());
}

TEST_F(LocalEngineTest, OfOneBatchTheFirstKeyGoesLast) {
  auto host = open(8 * footprint());
  Actor actor(host, world.id);
  std::vector<Entry> batch;
  for (int32_t row = 0; row < 8; row++) batch.push_back({row, row});
  actor.run(layout::OPERATION_PUT, batch);
  for (int32_t row = 8; row < 12; row++) actor.run(layout::OPERATION_PUT, {{row, row}});
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, batch), (std::vector<int32_t>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST_F(LocalEngineTest, AValueLargerThanThePoolIsRefusedAndEvictsNothing) {
  World huge(2, {1 << 20});
  auto host = open(512 << 10);
  Actor actor(host, world.id);
  Actor other(host, huge.id);
  actor.run(layout::OPERATION_PUT, {{0, 0}});
  EXPECT_EQ(other.run(layout::OPERATION_PUT, {{0, 1}}), (std::vector<int32_t>{code::NO_AVAILABLE_HANDLE}));
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{-1, 0}}), (std::vector<int32_t>{1}));
  EXPECT_EQ(host->statistics().putRefusals, 1u);
}

TEST_F(LocalEngineTest, SizesMayMixInAFullPool) {
  World large(8, {100'000});
  auto host = open(3 * 106'496);
  Actor actor(host, world.id);
  Actor other(host, large.id);
  for (int32_t round = 0; round < 5; round++) {
    for (int32_t row = 0; row < 16; row++) ASSERT_EQ(actor.run(layout::OPERATION_PUT, {{row, 20 + row + 16 * round}})[0], 1024);
    for (int32_t row = 0; row < 8; row++) ASSERT_EQ(other.run(layout::OPERATION_PUT, {{row, 110 + row + 8 * round}})[0], 100'000);
    EXPECT_LE(host->statistics().bytesUsed, 3 * 106'496u);
  }
}

TEST_F(LocalEngineTest, AFullPoolOfOneSizeMakesRoomForAnotherAndEvictsNoMore) {
  constexpr uint64_t BYTES_MAX = 40 << 20;
  local::Pool pool(BYTES_MAX);
  const auto put = [&](const std::string& key, size_t bytes) {
    auto value = pool.allocate(key, bytes);
    ASSERT_NE(value, nullptr) << key;
    std::memset(value->data(), key[0], bytes);
    pool.insert(std::move(value), pool.takeTicks(1));
  };
  int small = 0;
  while (pool.counters().evictions.load() == 0) put("s" + std::to_string(small++), 16 << 10);
  // Uses in an order that has nothing to do with slabs: the next evictions come from all over the pool.
  for (int i = 0; i < small; i++) pool.find("s" + std::to_string(i * 7919 % small), pool.takeTicks(1));
  const uint64_t before = pool.keyCount();
  for (int i = 0; i < 20; i++) put("l" + std::to_string(i), 32 << 10);
  EXPECT_GE(pool.keyCount(), before + 20 - 2 * 20 - 1) << "a large value costs two small ones, and no more";
  EXPECT_LE(pool.bytesUsed() + pool.bytesKept(), BYTES_MAX);
  for (int i = 0; i < 20; i++) {
    const auto value = pool.find("l" + std::to_string(i), pool.takeTicks(1));
    ASSERT_NE(value, nullptr);
    EXPECT_EQ(value->data()[(32 << 10) - 1], 'l');
  }
}

TEST_F(LocalEngineTest, RemovedValuesLeaveTheirMemoryToTheNext) {
  local::Pool pool(ROOM);
  const auto put = [&](const std::string& key) { pool.insert(pool.allocate(key, 32 << 10), pool.takeTicks(1)); };
  for (int i = 0; i < 100; i++) put(std::to_string(i));
  const uint64_t bytes = pool.bytesKept() + 100 * (32 << 10);
  EXPECT_GT(pool.removePrefix("1"), 0u);
  pool.clear();
  EXPECT_EQ(pool.bytesUsed(), 0u);
  EXPECT_EQ(pool.bytesKept(), bytes);
  for (int i = 0; i < 100; i++) put(std::to_string(i));
  EXPECT_EQ(pool.bytesKept() + 100 * (32 << 10), bytes) << "nothing more was asked of the system";
}

TEST_F(LocalEngineTest, PinnedValuesAreNotEvicted) {
  local::Pool pool(2 * footprint());
  const auto put = [&](const std::string& key) {
    auto value = pool.allocate(key, 1024);
    if (value == nullptr) return false;
    std::memset(value->data(), key[0], 1024);
    pool.insert(std::move(value), pool.takeTicks(1));
    return true;
  };
  const std::string padding(world.key(0).size() - 1, '-');
  ASSERT_TRUE(put("a" + padding));
  ASSERT_TRUE(put("b" + padding));
  auto a = pool.find("a" + padding, pool.takeTicks(1));
  auto b = pool.find("b" + padding, pool.takeTicks(1));
  EXPECT_FALSE(put("c" + padding)) << "both values are being read";
  EXPECT_EQ(pool.removePrefix(""), 0u);
  b.reset();
  EXPECT_TRUE(put("c" + padding)) << "b makes room, though a was used less lately";
  EXPECT_EQ(pool.find("b" + padding, pool.takeTicks(1)), nullptr);
  EXPECT_TRUE(pool.erase("a" + padding));
  EXPECT_EQ(a->data()[1023], 'a') << "a reader keeps the bytes of a removed value";
  EXPECT_EQ(pool.bytesUsed(), 2 * footprint());
  a.reset();
  EXPECT_EQ(pool.bytesUsed(), footprint());
}

TEST_F(LocalEngineTest, AFlippedBitIsFoundAndItsValueDropped) {
  auto host = open();
  Actor actor(host, world.id);
  world.fill(0, 5);
  world.fill(1, 60);
  actor.run(layout::OPERATION_PUT, {{0, 5}});
  EXPECT_FALSE(host->connection()->engine->corrupt(world.key(6), 0));
  EXPECT_EQ(support::errorOf([&] { host->connection()->engine->corrupt(world.key(5), 1024); }), "INVALID_VALUE");
  EXPECT_TRUE(host->connection()->engine->corrupt(world.key(5), 1023));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{1, 5}}), (std::vector<int32_t>{code::CHECKSUM_MISMATCH}));
  EXPECT_TRUE(world.holds(1, 60)) << "wrong bytes must not reach a block";
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{-1, 5}}), (std::vector<int32_t>{0}));
}

TEST_F(LocalEngineTest, WithoutChecksumsAFlippedBitArrives) {
  auto host = open(ROOM, false);
  Actor actor(host, world.id);
  world.fill(0, 5);
  actor.run(layout::OPERATION_PUT, {{0, 5}});
  EXPECT_TRUE(host->connection()->engine->corrupt(world.key(5), 0));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{1, 5}}), (std::vector<int32_t>{1024}));
  EXPECT_FALSE(world.holds(1, 5));
}

TEST_F(LocalEngineTest, EnginesOfOneNameShareThePool) {
  auto host = open();
  auto other = open();
  Actor actor(host, world.id);
  Actor second(other, world.id);
  world.fill(0, 5);
  actor.run(layout::OPERATION_PUT, {{0, 5}});
  EXPECT_EQ(second.run(layout::OPERATION_GET, {{1, 5}}), (std::vector<int32_t>{1024}));
  EXPECT_TRUE(world.holds(1, 5));
  std::string field;
  EXPECT_EQ(support::errorOf([&] { open(ROOM + 1); }, &field), "INVALID_VALUE");
  EXPECT_EQ(field, "bytesMax");
}

TEST_F(LocalEngineTest, APoolGoesWithItsLastEngine) {
  {
    auto host = open();
    Actor actor(host, world.id);
    actor.run(layout::OPERATION_PUT, {{0, 5}});
    EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  }
  std::shared_ptr<EngineHost> again;
  support::waitUntil([&] { return support::errorOf([&] { again = open(ROOM / 2); }).empty(); });
  EXPECT_EQ(again->statistics().keys, 0u);
}

TEST_F(LocalEngineTest, KeysAndRemovalByPrefix) {
  auto host = open();
  Actor actor(host, world.id);
  actor.run(layout::OPERATION_PUT, {{0, 1}, {1, 2}, {2, 3}});
  EXPECT_EQ(support::keys(*host, "", 100).size(), 3u);
  EXPECT_EQ(support::keys(*host, "", 2).size(), 2u);
  EXPECT_EQ(support::keys(*host, world.key(2), 100), (std::vector<std::string>{world.key(2)}));
  EXPECT_EQ(support::removePrefix(*host, world.key(2)), 1u);
  EXPECT_EQ(support::removePrefix(*host, "other"), 0u);
  EXPECT_EQ(actor.run(layout::OPERATION_REMOVE_ALL, {}), (std::vector<int32_t>{}));
  EXPECT_EQ(host->statistics().keys, 0u);
  EXPECT_EQ(host->statistics().bytesUsed, 0u);
}

TEST(OpenEngine, OptionsThatNoEngineAccepts) {
  EXPECT_EQ(support::errorOf([] { openEngine(MooncakeOptions{}); }), "INVALID_VALUE");
  EXPECT_EQ(support::errorOf([] { openEngine(LocalOptions{"", 1, 1, false}); }), "INVALID_VALUE");
  EXPECT_EQ(support::errorOf([] { openEngine(LocalOptions{"x", 0, 1, false}); }), "INVALID_VALUE");
}

}  // namespace
}  // namespace local_engine_test
