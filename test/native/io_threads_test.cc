// Goal: tasks of one lane never hold up another lane, and the thread that worked last works next. Method: tasks that wait in
// gates and note on which thread and processors they ran, so that no timing decides.
#include "core/io_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "core/clock.h"
#include "faulty_engine.h"
#include "support.h"

namespace io_threads_test {
namespace {

using namespace mooncake_kv;
using support::Gate;
using support::waitUntil;

IoThreads::Task taskOf(std::function<void()>& work) {
  return {[](const IoThreads::Task& task) { (*static_cast<std::function<void()>*>(task.subject))(); }, &work, 0, 0};
}

/** Pushes functions; each must live until it has run. One thread. */
class Lanes {
 private:
  std::deque<IoThreads::Task> tasks_;

 public:
  explicit Lanes(std::vector<uint32_t> limits, bool firstHalf = false) : threads(limits, firstHalf) {}

  void push(size_t lane, std::function<void()>& work) { threads.push(lane, tasks_.emplace_back(taskOf(work))); }
  /** Runs it there and waits for its end. */
  void run(size_t lane, const std::function<void()>& work) {
    std::atomic<bool> done{false};
    std::function<void()> noted = [&] {
      work();
      done = true;
    };
    push(lane, noted);
    waitUntil([&] { return done.load(); });
    // A thread counts as busy until it is among the idle ones.
    waitUntil([&] { return threads.busySince(monotonicNanoseconds()) == 0; });
  }

  IoThreads threads;
};

TEST(IoThreads, TheThreadThatWorkedLastWorksNextWhateverTheLane) {
  Lanes lanes({2, 4, 4});
  // All threads have started once each of them has had a task.
  Gate gate;
  std::atomic<int> started{0};
  std::function<void()> start = [&] {
    started++;
    gate.pass();
  };
  for (size_t task = 0; task < 10; task++) lanes.push(task < 2 ? 0 : 1 + task % 2, start);
  waitUntil([&] { return started.load() == 10; });
  gate.open();
  waitUntil([&] { return lanes.threads.busySince(monotonicNanoseconds()) == 0; });

  std::vector<std::thread::id> ran;
  for (size_t task = 0; task < 9; task++) lanes.run(task % 3, [&] { ran.push_back(std::this_thread::get_id()); });
  EXPECT_EQ(ran, std::vector<std::thread::id>(9, ran.front()));
}

TEST(IoThreads, ALaneThatHangsHoldsUpNoOther) {
  Lanes lanes({1, 1});
  Gate gate;
  std::function<void()> hang = [&] { gate.pass(); };
  std::atomic<bool> second{false};
  std::function<void()> next = [&] { second = true; };
  lanes.push(0, hang);
  lanes.push(0, next);
  std::atomic<int> others{0};
  std::function<void()> other = [&] { others++; };
  for (int task = 0; task < 3; task++) lanes.push(1, other);
  waitUntil([&] { return others.load() == 3; });
  EXPECT_FALSE(second) << "the lane has one thread, and it hangs";
  gate.open();
  waitUntil([&] { return second.load(); });
}

TEST(IoThreads, NoMoreTasksOfALaneRunThanItsLimit) {
  Gate gate;
  std::atomic<int> running{0}, most{0}, done{0};
  std::function<void()> work = [&] {
    const int now = ++running;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    gate.pass();
    running--;
    done++;
  };
  // Last, so that it ends first: its threads use all of the above.
  Lanes lanes({2, 3});
  for (int task = 0; task < 6; task++) lanes.push(0, work);
  waitUntil([&] { return running.load() == 2; });
  gate.open();
  waitUntil([&] { return done.load() == 6 && lanes.threads.busySince(monotonicNanoseconds()) == 0; });
  EXPECT_EQ(most, 2);
}

TEST(IoThreads, AThreadThatHangsIsReplacedAndStillCounted) {
  Lanes lanes({1});
  Gate gate;
  std::function<void()> hang = [&] { gate.pass(); };
  lanes.push(0, hang);
  waitUntil([&] { return lanes.threads.busySince(monotonicNanoseconds()) == 1; });
  lanes.threads.replaceBusySince(monotonicNanoseconds());
  std::atomic<bool> ran{false};
  std::function<void()> next = [&] { ran = true; };
  lanes.push(0, next);
  waitUntil([&] { return ran.load(); });
  waitUntil([&] { return lanes.threads.busySince(monotonicNanoseconds()) == 1; });
  gate.open();
  waitUntil([&] { return lanes.threads.busySince(monotonicNanoseconds()) == 0; });
}

TEST(IoThreads, WhatIsQueuedIsWorkedOffBeforeTheEnd) {
  std::atomic<int> ran{0};
  std::function<void()> work = [&] { ran++; };
  {
    Lanes lanes({1, 1});
    for (int task = 0; task < 50; task++) lanes.push(static_cast<size_t>(task % 2), work);
  }
  EXPECT_EQ(ran, 50);
}

TEST(IoThreads, MayEndOnOneOfItsThreadsWhileAGivenUpOneHangs) {
  std::atomic<bool> ended{false};
  std::atomic<int> returned{0};
  Gate gate;
  std::function<void()> hang = [&] {
    gate.pass();
    returned++;
  };
  IoThreads::Task hanging = taskOf(hang);
  const std::vector<uint32_t> limits{1, 3};
  auto threads = std::make_unique<IoThreads>(limits, false);
  threads->push(0, hanging);
  waitUntil([&] { return gate.waiting == 1; });
  threads->replaceBusySince(monotonicNanoseconds());
  std::function<void()> end = [&] {
    threads.reset();
    ended = true;
  };
  IoThreads::Task ending = taskOf(end);
  threads->push(1, ending);
  waitUntil([&] { return ended.load(); });
  EXPECT_EQ(returned, 0);
  gate.open();
  waitUntil([&] { return returned.load() == 1; });
}

TEST(IoThreads, EachTaskRunsOnceWhoeverPushesAndWhateverIsReplaced) {
  constexpr size_t PUSHERS = 3, TASKS = 2000, LANES = 3;
  std::atomic<size_t> ran{0};
  std::function<void()> work = [&] {
    if (ran.fetch_add(1) % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  // Each task is used again as soon as it runs, as those of a batch are.
  struct Own {
    std::function<void()> run;
    std::atomic<bool> free{true};
    IoThreads::Task task;
  };
  std::vector<Own> owned(PUSHERS * 8);
  for (Own& own : owned) {
    own.run = [&work, &own] {
      work();
      own.free = true;
    };
  }
  {
    const std::vector<uint32_t> limits{1, 2, 2};
    IoThreads threads(limits, false);
    std::vector<std::thread> pushers;
    for (size_t pusher = 0; pusher < PUSHERS; pusher++) {
      pushers.emplace_back([&, pusher] {
        std::mt19937 random(static_cast<unsigned>(pusher));
        for (size_t count = 0; count < TASKS; count++) {
          Own& own = owned[pusher * 8 + random() % 8];
          waitUntil([&] { return own.free.exchange(false); });
          own.task = taskOf(own.run);
          threads.push(random() % LANES, own.task);
        }
      });
    }
    for (int round = 0; round < 20; round++) {
      threads.replaceBusySince(monotonicNanoseconds());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    for (std::thread& pusher : pushers) pusher.join();
    // Those of given up threads are not waited for at the end.
    waitUntil([&] { return ran == PUSHERS * TASKS && threads.busySince(monotonicNanoseconds()) == 0; });
  }
  EXPECT_EQ(ran, PUSHERS * TASKS);
}

TEST(IoThreads, ThreadsOfAnEngineThatSpinsKeepToHalfOfTheProcessors) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  Lanes lanes({1}, true);
  cpu_set_t ran;
  lanes.run(0, [&] { sched_getaffinity(0, sizeof(ran), &ran); });
  EXPECT_EQ(CPU_COUNT(&ran), std::max(1, CPU_COUNT(&all) / 2)) << "one processor has no halves";
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&all, &after));
}

}  // namespace
}  // namespace io_threads_test
