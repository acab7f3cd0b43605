// Goal: values that are not to be used are misses for a while, no more of them than are bounded, and only who has the claim removes them,
// ever more rarely; a value fails for good only after it has failed for long. Method: times are given.
#include "engines/mooncake/refused_keys.h"

#include <gtest/gtest.h>

using mooncake_kv::mooncake::RefusedKeys;
using std::chrono::seconds;

namespace {

const RefusedKeys::Clock::time_point START{std::chrono::hours(1)};

TEST(RefusedKeys, AreMissesUntilTheyAreForgottenOrOld) {
  RefusedKeys keys;
  EXPECT_FALSE(keys.contains("a", START));
  keys.add("a", true, START);
  keys.add("b", false, START);
  EXPECT_TRUE(keys.contains("a", START + seconds(100)));
  EXPECT_TRUE(keys.contains("b", START + seconds(29)));
  EXPECT_FALSE(keys.contains("b", START + seconds(30))) << "whoever has the claim may have removed it";
  EXPECT_FALSE(keys.contains("a", START + seconds(120)));
  keys.forget("a");
  EXPECT_FALSE(keys.contains("a", START));
  keys.forget("a");
  keys.add("b", true, START + seconds(40));
  EXPECT_TRUE(keys.contains("b", START + seconds(100))) << "refused again";
}

TEST(RefusedKeys, AreBounded) {
  RefusedKeys keys;
  for (size_t nth = 0; nth < RefusedKeys::KEYS_MAX + 100; nth++) keys.add(std::to_string(nth), true, START);
  EXPECT_EQ(keys.count(), RefusedKeys::KEYS_MAX);
  EXPECT_FALSE(keys.contains("99", START));
  EXPECT_TRUE(keys.contains("100", START));
  keys.add("late", true, START + seconds(500));
  EXPECT_EQ(keys.count(), 1u);
}

TEST(RefusedKeys, OnlyClaimedOnesAreDueAndEverMoreRarely) {
  RefusedKeys keys;
  keys.add("mine", true, START);
  keys.add("another's", false, START);
  EXPECT_TRUE(keys.isClaimed("mine"));
  EXPECT_FALSE(keys.isClaimed("another's"));
  EXPECT_FALSE(keys.isClaimed("unknown"));
  std::vector<int> dueAt;
  for (int second = 0; second < 60; second++) {
    if (!keys.takeDue(START + seconds(second), 10).empty()) dueAt.push_back(second);
  }
  EXPECT_EQ(dueAt, (std::vector<int>{0, 1, 3, 7, 15, 31, 47}));
  for (int nth = 0; nth < 5; nth++) keys.add("more " + std::to_string(nth), true, START + seconds(60));
  EXPECT_EQ(keys.takeDue(START + seconds(60), 3).size(), 3u);
  EXPECT_EQ(keys.takeDue(START + seconds(60), 3).size(), 2u);
}

TEST(RefusedKeys, AValueFailsForGoodAfterThreeFailuresInTenSecondsAndMore) {
  RefusedKeys keys;
  for (int times = 0; times < 20; times++) EXPECT_FALSE(keys.failsForGood("quick", START));
  EXPECT_FALSE(keys.failsForGood("slow", START));
  EXPECT_FALSE(keys.failsForGood("slow", START + seconds(11)));
  EXPECT_TRUE(keys.failsForGood("slow", START + seconds(12)));
  EXPECT_FALSE(keys.failsForGood("slow", START + seconds(13))) << "it begins anew";
  EXPECT_FALSE(keys.failsForGood("rare", START));
  EXPECT_FALSE(keys.failsForGood("rare", START + seconds(601)));
  EXPECT_FALSE(keys.failsForGood("rare", START + seconds(1202)));
}

}  // namespace
