// Regions, and the rule about memory whose owner ends: nobody gets in any more, and the end waits for those inside.
#include "core/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/populate.h"
#include "support.h"

namespace memory_test {
namespace {

using namespace mooncake_kv;

TEST(MemoryTest, MemfdIsZeroedAlignedAndClosedWithItsLastHolder) {
  auto region = Memory::createMemfd(10'000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % 4096, 0u);
  EXPECT_EQ(region->bytes(), 10'000u);
  for (size_t i = 0; i < region->bytes(); i++) ASSERT_EQ(region->data()[i], 0);
  const int descriptor = region->fileDescriptor();
  struct stat status {};
  ASSERT_EQ(fstat(descriptor, &status), 0);
  EXPECT_EQ(status.st_size, 10'000);
  auto other = region;
  region.reset();
  other->data()[9'999] = 1;
  other.reset();
  EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);
}

/** Pages of the region that have memory, in this process or another. */
size_t pagesWithMemory(const Memory& region) {
  std::vector<unsigned char> pages(region.bytes() / PAGE_BYTES);
  EXPECT_EQ(mincore(region.data(), region.bytes(), pages.data()), 0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

TEST(MemoryTest, ARegionHasItsMemoryFromTheStart) {
  const auto region = Memory::createMemfd(3 * HUGE_PAGE_BYTES + PAGE_BYTES);
  EXPECT_EQ(pagesWithMemory(*region), region->bytes() / PAGE_BYTES);
}

TEST(MemoryTest, AHelperPopulatesTheRestOfALargeRegionUnderItsWriters) {
  const auto region = Memory::createMemfd(Memory::POPULATED_AT_ONCE_BYTES + 8 * HUGE_PAGE_BYTES);
  for (size_t offset = region->bytes(); offset >= PAGE_BYTES; offset -= PAGE_BYTES) region->data()[offset - 1] = 9;
  support::waitUntil([&] { return pagesWithMemory(*region) == region->bytes() / PAGE_BYTES; });
  for (size_t offset = 0; offset < region->bytes(); offset += PAGE_BYTES) {
    ASSERT_EQ(region->data()[offset], 0);
    ASSERT_EQ(region->data()[offset + PAGE_BYTES - 1], 9);
  }
}

TEST(MemoryTest, ALargeRegionMayGoWhileItIsPopulated) {
  for (int i = 0; i < 3; i++) {
    auto region = Memory::createMemfd(Memory::POPULATED_AT_ONCE_BYTES + (size_t{64} << 20));
    const int descriptor = region->fileDescriptor();
    region.reset();
    EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);
  }
}

TEST(MemoryTest, TouchingPagesKeepsWhatOthersWriteMeanwhile) {
  const auto region = Memory::createMemfd(2 * HUGE_PAGE_BYTES);
  std::atomic<bool> done{false};
  std::thread toucher([&] {
    while (!done.load()) touchPages(region->data(), region->bytes());
  });
  int lost = 0;
  for (int round = 1; round < 200; round++) {
    for (size_t offset = 0; offset < region->bytes(); offset += PAGE_BYTES) region->data()[offset] = static_cast<uint8_t>(round);
    for (size_t offset = 0; offset < region->bytes(); offset += PAGE_BYTES) lost += region->data()[offset] != round;
  }
  done.store(true);
  toucher.join();
  EXPECT_EQ(lost, 0);
}

TEST(MemoryTest, MoreThanTheMachineHasIsAnError) {
  EXPECT_EQ(support::errorOf([] { Memory::createMemfd(size_t{1} << 60); }), "CAPACITY");
}

TEST(MemoryTest, LastHolderTellsTheOwner) {
  int told = 0;
  int bytes = 0;
  auto memory = Memory::adoptHost(&bytes, sizeof bytes, [&] { told++; });
  auto other = memory;
  memory.reset();
  EXPECT_EQ(told, 0);
  other.reset();
  EXPECT_EQ(told, 1);
}

TEST(MemoryTest, TheOwnersEndWaitsForThoseInside) {
  std::vector<int> bytes(1000, 0);
  auto memory = Memory::adoptHost(bytes.data(), bytes.size() * sizeof(int), nullptr);
  std::atomic<bool> refused{false};
  std::atomic<int> entered{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 3; user++) {
    users.emplace_back([&, user, memory] {
      while (memory->enter()) {
        entered.fetch_add(1);
        reinterpret_cast<int*>(memory->data())[user * 16]++;
        memory->leave();
      }
      refused.store(true);
    });
  }
  support::waitUntil([&] { return entered.load() > 100; });
  memory->closeAndWait();
  // Nobody is inside: this write would race with a user's otherwise, which the sanitizers show.
  std::fill(bytes.begin(), bytes.end(), -1);
  for (std::thread& user : users) user.join();
  EXPECT_TRUE(refused.load());
  EXPECT_EQ(bytes[0], -1);
  EXPECT_FALSE(memory->enter());
}

}  // namespace
}  // namespace memory_test
