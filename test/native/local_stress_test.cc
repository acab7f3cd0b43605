// Several actors put, get, remove and clear the same keys in a pool far too small for them, with checksums on.
//
// Every value is a function of its key, so whatever a get brings must be that or a miss. The bound must hold at every look,
// and nothing may stay pinned. Run under the sanitizers, which see a race or a use after free that happened in this run; it
// cannot show those that need a rarer order.
#include <random>

#include "engines/open_engine.h"
#include "support.h"

namespace local_stress_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::Entry;
using support::World;

constexpr int ACTORS = 3;
constexpr int ROUNDS = 150;
constexpr int32_t ROWS = 100;
constexpr int32_t KEYS = 16;
constexpr uint64_t BYTES_MAX = 150'000;

struct Tally {
  int hits = 0;
  int wrong = 0;
};

void act(const std::shared_ptr<EngineHost>& host, World& world, uint32_t seed, Tally& tally) {
  Actor actor(host, world.id, 2, KEYS);
  std::mt19937 random(seed);
  for (int round = 0; round < ROUNDS; round++) {
    std::vector<Entry> entries;
    for (int32_t block = 0; block < KEYS; block++) entries.push_back({block, static_cast<int32_t>(random() % ROWS)});
    const uint32_t choice = random() % 20;
    if (choice == 0) {
      actor.run(layout::OPERATION_REMOVE_ALL, {});
    } else if (choice < 3) {
      actor.run(layout::OPERATION_REMOVE, entries);
    } else if (choice < 4) {
      support::removePrefix(*host, world.key(entries[0].row));
    } else if (choice < 12) {
      for (const Entry& entry : entries) world.fill(entry.block, static_cast<uint8_t>(entry.row));
      actor.run(layout::OPERATION_PUT, entries);
    } else {
      const std::vector<int32_t> results = actor.run(layout::OPERATION_GET, entries);
      for (size_t i = 0; i < results.size(); i++) {
        if (results[i] == code::OBJECT_NOT_FOUND) continue;
        tally.hits++;
        const bool whole = results[i] == static_cast<int32_t>(world.valueBytes);
        if (!whole || !world.holds(entries[i].block, static_cast<uint8_t>(entries[i].row))) tally.wrong++;
      }
    }
    const EngineStatistics statistics = host->statistics();
    if (statistics.bytesUsed > BYTES_MAX) tally.wrong++;
  }
}

TEST(LocalStress, ValuesAreRightOrAbsentAndTheBoundHolds) {
  auto host = openEngine(LocalOptions{"stress", BYTES_MAX, 3, true});
  // Every actor has KV memory of its own; keys are equal because digests are.
  std::vector<std::unique_ptr<World>> worlds;
  for (int i = 0; i < ACTORS; i++) worlds.push_back(std::make_unique<World>(KEYS, std::vector<uint64_t>{3000, 1100}));
  std::vector<Tally> tallies(ACTORS);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < ACTORS; i++) threads.emplace_back([&, i] { act(host, *worlds[i], 17 + i, tallies[i]); });
  for (std::thread& thread : threads) thread.join();
  for (const Tally& tally : tallies) {
    EXPECT_EQ(tally.wrong, 0);
    EXPECT_GT(tally.hits, 0);
  }
  const std::shared_ptr<Engine> engine = host->connection()->engine;
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  EXPECT_GT(engine->statistics().evictions, 0u);
  const auto keys = static_cast<int64_t>(engine->statistics().keys);
  EXPECT_EQ(engine->control({.operation = ControlOperation::removePrefix}).count, keys) << "a value is still pinned";
  EXPECT_EQ(engine->statistics().bytesUsed, 0u);
}

}  // namespace
}  // namespace local_stress_test
