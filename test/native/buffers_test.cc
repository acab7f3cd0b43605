// Buffers of a pool: the bound holds over all sizes together, memory moves between sizes, what is given back is used again.
#include "engines/local/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "core/populate.h"
#include "support.h"

namespace buffers_test {
namespace {

using namespace mooncake_kv;
using local::Buffers;
using local::Slabs;

constexpr size_t KIB = 1 << 10;
constexpr uint64_t LARGE_POOL = 64 << 20;

size_t pagesWithMemory(const uint8_t* data, size_t bytes) {
  std::vector<unsigned char> pages(bytes / PAGE_BYTES);
  if (mincore(const_cast<uint8_t*>(data), bytes, pages.data()) != 0) return 0;
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

bool isPopulated(const Buffers::Buffer& buffer) { return pagesWithMemory(buffer.data, buffer.capacity) == buffer.capacity / PAGE_BYTES; }

TEST(BuffersTest, CapacitiesWasteLittle) {
  EXPECT_EQ(Buffers::capacityFor(0), 64u);
  EXPECT_EQ(Buffers::capacityFor(1000), 1024u);
  EXPECT_EQ(Buffers::capacityFor(4100), 4160u) << "two pages would waste almost half";
  EXPECT_EQ(Buffers::capacityFor(32 * KIB), 32 * KIB);
  EXPECT_EQ(Buffers::capacityFor(32 * KIB - 100), 32 * KIB);
  EXPECT_EQ(Buffers::capacityFor(100'000), 102'400u);
}

TEST(BuffersTest, FreshBuffersHaveMemoryWhateverTheirSize) {
  for (const uint64_t bytesMax : {uint64_t{8} << 20, LARGE_POOL}) {
    Buffers buffers(bytesMax);
    for (const size_t bytes : {4 * KIB, 12 * KIB, 32 * KIB, 60 * KIB, 64 * KIB, 4096 * KIB}) {
      const Buffers::Buffer buffer = buffers.take(bytes, 0);
      ASSERT_NE(buffer.data, nullptr);
      EXPECT_TRUE(isPopulated(buffer)) << bytes;
      buffers.give(buffer, 0);
    }
  }
}

TEST(BuffersTest, ASlabIsPopulatedAsAWholeAndKeptWhileThereIsRoom) {
  Buffers buffers(LARGE_POOL);
  const Buffers::Buffer first = buffers.take(32 * KIB, 100);
  EXPECT_EQ(buffers.bytesUsed(), 32 * KIB + 100);
  EXPECT_EQ(buffers.bytesKept(), Slabs::SLAB_BYTES - 32 * KIB);
  const Buffers::Buffer second = buffers.take(32 * KIB, 100);
  EXPECT_EQ(second.slab, first.slab);
  buffers.give(first, 100);
  buffers.give(second, 100);
  EXPECT_EQ(buffers.bytesKept(), Slabs::SLAB_BYTES) << "nothing went back to the system";
}

TEST(BuffersTest, SmallPoolsAreFilledToTheLastByte) {
  Buffers buffers(4 * (8 * KIB + 100));
  for (int i = 0; i < 4; i++) {
    const Buffers::Buffer buffer = buffers.take(8 * KIB, 100);
    ASSERT_NE(buffer.data, nullptr);
    EXPECT_EQ(buffers.bytesKept(), 0u);
    if (i == 3) {
      EXPECT_EQ(buffers.take(1, 0).data, nullptr);
    }
  }
}

TEST(BuffersTest, ASlabWithoutUseGoesWhenAnotherSizeNeedsIt) {
  Buffers buffers(LARGE_POOL);
  std::vector<Buffers::Buffer> taken;
  for (uint64_t i = 0; i < LARGE_POOL / (32 * KIB); i++) taken.push_back(buffers.take(32 * KIB, 0));
  ASSERT_NE(taken.back().data, nullptr);
  ASSERT_EQ(buffers.take(16 * KIB, 0).data, nullptr);
  const uint8_t* slab = taken[0].slab->data;
  for (const Buffers::Buffer& each : taken) {
    if (each.slab->data == slab) buffers.give(each, 0);
  }
  ASSERT_EQ(buffers.bytesKept(), Slabs::SLAB_BYTES);
  const Buffers::Buffer other = buffers.take(16 * KIB, 0);
  ASSERT_TRUE(isPopulated(other));
  EXPECT_LE(buffers.bytesUsed() + buffers.bytesKept(), LARGE_POOL);
  EXPECT_EQ(buffers.bytesKept(), Slabs::SLAB_BYTES - 16 * KIB) << "the slab's room became one of the other size";
}

TEST(BuffersTest, SingleFreeBuffersOfManySlabsMakeRoomToo) {
  Buffers buffers(LARGE_POOL);
  std::vector<Buffers::Buffer> taken;
  for (uint64_t i = 0; i < LARGE_POOL / (32 * KIB); i++) taken.push_back(buffers.take(32 * KIB, 0));
  // One of each slab, so no slab is without use.
  std::vector<Buffers::Buffer> given;
  for (size_t i = 0; i < taken.size(); i += Slabs::buffersPerSlab(32 * KIB)) given.push_back(taken[i]);
  for (const Buffers::Buffer& each : given) buffers.give(each, 0);
  const uint64_t free = given.size() * 32 * KIB;
  std::vector<Buffers::Buffer> others;
  for (uint64_t bytes = 0; bytes < free; bytes += 16 * KIB) {
    others.push_back(buffers.take(16 * KIB, 0));
    ASSERT_TRUE(isPopulated(others.back()));
    std::memset(others.back().data, 7, 16 * KIB);
  }
  EXPECT_EQ(buffers.bytesUsed(), LARGE_POOL);
  size_t pages = 0;
  for (const Buffers::Buffer& each : given) pages += pagesWithMemory(each.data, each.capacity);
  EXPECT_EQ(pages, 0u) << "their memory went back to the system";
  // And back again.
  for (const Buffers::Buffer& each : others) buffers.give(each, 0);
  for (size_t i = 0; i < given.size(); i++) ASSERT_TRUE(isPopulated(buffers.take(32 * KIB, 0)));
  EXPECT_EQ(buffers.bytesUsed(), LARGE_POOL);
}

TEST(BuffersTest, AnyMixOfSizesCanTakeWhatIsNotInUse) {
  const std::vector<size_t> sizes = {100, 1000, 4 * KIB, 5000, 8 * KIB, 20 * KIB, 32 * KIB, 48 * KIB, 60 * KIB, 100'000, 3 << 20};
  for (const uint64_t bytesMax : {uint64_t{5} << 20, uint64_t{40} << 20}) {
    Buffers buffers(bytesMax);
    std::mt19937 random(7);
    std::vector<Buffers::Buffer> taken;
    for (int step = 0; step < 4000; step++) {
      const size_t bytes = sizes[random() % sizes.size()];
      const uint64_t wanted = Buffers::capacityFor(bytes) + 50;
      const bool fits = buffers.bytesUsed() + wanted <= bytesMax;
      const Buffers::Buffer buffer = buffers.take(bytes, 50);
      ASSERT_EQ(buffer.data != nullptr, fits) << "step " << step;
      ASSERT_LE(buffers.bytesUsed() + buffers.bytesKept(), bytesMax);
      if (fits) {
        buffer.data[0] = buffer.data[bytes - 1] = static_cast<uint8_t>(step);
        taken.push_back(buffer);
      }
      for (int give = 0; !fits && give < 3 && !taken.empty(); give++) {
        std::swap(taken[random() % taken.size()], taken.back());
        buffers.give(taken.back(), 50);
        taken.pop_back();
      }
    }
    for (const Buffers::Buffer& each : taken) buffers.give(each, 50);
    EXPECT_EQ(buffers.bytesUsed(), 0u);
  }
}

TEST(BuffersTest, ThreadsOfDifferentSizesShareTheBound) {
  constexpr uint64_t BYTES_MAX = 34 << 20;
  Buffers buffers(BYTES_MAX);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 3; seed++) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Buffers::Buffer> mine;
      for (int step = 0; step < 3000; step++) {
        const Buffers::Buffer buffer = buffers.take((4 * KIB) << (random() % 6), 30);
        if (buffer.data != nullptr) {
          std::memset(buffer.data, static_cast<int>(seed), 64);
          mine.push_back(buffer);
          continue;
        }
        for (int give = 0; give < 20 && !mine.empty(); give++) {
          std::swap(mine[random() % mine.size()], mine.back());
          if (mine.back().data[63] != seed) wrong++;
          buffers.give(mine.back(), 30);
          mine.pop_back();
        }
        if (buffers.bytesUsed() > BYTES_MAX) wrong++;
      }
      for (const Buffers::Buffer& each : mine) buffers.give(each, 30);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(buffers.bytesUsed(), 0u);
  EXPECT_LE(buffers.bytesKept(), BYTES_MAX);
}

}  // namespace
}  // namespace buffers_test
