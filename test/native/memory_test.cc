// Regions, and the rule about memory whose owner ends: nobody gets in any more, and the end waits for those inside.
#include "core/memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support.h"

using namespace mooncake_kv;

namespace {

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
