// Goal: an engine in a child process does what the engine in it does, and its death, silence or refusal costs no more than the calls
// that were in it: each batch completes once, the next child serves again, and no process stays behind. Method: real processes with
// the local engine, killed and stopped by pid at any moment.
#include "engines/child/child_engine.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "engines/child/spawn.h"
#include "engines/child/wire.h"
#include "engines/mooncake/wheel_log.h"
#include "engines/open_engine.h"
#include "support.h"

namespace child_engine_test {
namespace {

using namespace mooncake_kv;
using support::Actor;
using support::Entry;
using support::waitUntil;
using support::World;
using child::ChildEngine;
using std::chrono::milliseconds;

ChildOptions childOptions() {
  ChildOptions options;
  options.executable = MOONCAKE_KV_ENGINE_PROGRAM;
  options.inner = std::make_shared<const EngineOptions>(LocalOptions{.poolName = "child", .bytesMax = 8 << 20, .ioThreads = 1, .verifyChecksums = true});
  options.existsThreads = 1;
  options.getThreads = 2;
  options.putThreads = 2;
  return options;
}

/** Processes whose parent is `parent`, zombies included. */
std::set<pid_t> childrenOf(pid_t parent) {
  std::set<pid_t> found;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder)) {
    std::ifstream stat(std::string("/proc/") + entry->d_name + "/stat");
    std::string text;
    if (!std::getline(stat, text)) continue;
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    std::string state;
    pid_t itsParent = 0;
    rest >> state >> itsParent;
    if (itsParent == parent) found.insert(static_cast<pid_t>(std::stol(entry->d_name)));
  }
  closedir(folder);
  return found;
}

/** The letter of /proc; 0 when there is no such task. */
char stateOf(const std::filesystem::path& task) {
  std::ifstream stat(task / "stat");
  std::string text;
  return std::getline(stat, text) ? text[text.rfind(')') + 2] : '\0';
}

bool isRunning(pid_t pid) {
  const char state = stateOf("/proc/" + std::to_string(pid));
  return state != '\0' && state != 'Z';
}

/** Returns when all threads of the process stand still: on a busy machine some of them work on for a while after the signal. */
void stop(pid_t pid) {
  kill(pid, SIGSTOP);
  const std::filesystem::path tasks("/proc/" + std::to_string(pid) + "/task");
  waitUntil([&] {
    return std::all_of(std::filesystem::directory_iterator(tasks), std::filesystem::directory_iterator(),
                       [](const auto& task) { return stateOf(task.path()) == 'T'; });
  });
}

class ChildEngineTest : public testing::Test {
 protected:
  ~ChildEngineTest() override {
    if (host != nullptr) host->close(std::chrono::minutes(1));
    host.reset();
    // Every process was waited for: not even a zombie is left.
    waitUntil([] { return childrenOf(getpid()).empty(); });
  }
  void open(const ChildOptions& options = childOptions()) {
    EngineRecipe recipe = engineRecipe(options);
    host = EngineHost::open({.traits = recipe.traits,
                             .make = std::move(recipe.make),
                             .retryFirst = milliseconds(1),
                             .retryLast = milliseconds(4)});
  }
  void waitFor(EngineState state) {
    waitUntil([&] { return host->state() == state; });
  }
  /** The process of the connection that is open, once it is another than `before`. */
  pid_t awaitPid(pid_t before = 0) {
    for (;;) {
      waitFor(EngineState::open);
      const auto connection = host->connection();
      if (connection == nullptr) continue;
      const pid_t pid = static_cast<ChildEngine&>(*connection->engine).pid();
      if (pid > 0 && pid != before) return pid;
    }
  }
  ControlReply control(const ControlRequest& request) { return host->connection()->engine->control(request); }

  World world{16, {4096, 512}};
  std::shared_ptr<EngineHost> host;
};

TEST_F(ChildEngineTest, ServesBlocksAndCallsOfTheEngineInIt) {
  open();
  waitFor(EngineState::open);
  Actor actor(host, world.id);
  world.fill(0, 10);
  world.fill(1, 20);
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{0, 0}, {1, 1}}), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}, {1, 1}}), (std::vector<int32_t>{4608, 4608}));
  EXPECT_EQ(actor.run(layout::OPERATION_EXISTS, {{0, 0}, {1, 1}, {2, 2}}), (std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{4, 0}, {5, 1}, {6, 9}}), (std::vector<int32_t>{4608, 4608, code::OBJECT_NOT_FOUND}));
  EXPECT_EQ(actor.tier(0, 0), layout::TIER_MEMORY | layout::CHECK_VERIFIED);
  EXPECT_TRUE(world.holds(4, 10));
  EXPECT_TRUE(world.holds(5, 20));
  const EngineStatistics statistics = host->statistics();
  EXPECT_EQ(statistics.keys, 2u);
  EXPECT_EQ(statistics.puts, 2u);
  EXPECT_EQ(statistics.getMisses, 1u);
  EXPECT_EQ(statistics.bytesMax, uint64_t{8 << 20});

  EXPECT_EQ(control({.operation = ControlOperation::putValue, .key = "id", .value = {1, 2, 3}}).count, 1);
  EXPECT_EQ(control({.operation = ControlOperation::putValue, .key = "id", .value = {4}}).count, 0);
  EXPECT_EQ(control({.operation = ControlOperation::getValue, .key = "id"}).value, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_EQ(control({.operation = ControlOperation::health}).status, code::OK);
  EXPECT_EQ(support::keys(*host, "model@", 10).size(), 2u);
  EXPECT_EQ(control({.operation = ControlOperation::removeKey, .key = "none"}).status, code::OBJECT_NOT_FOUND);
  // A flipped bit is seen by the checksum in the child.
  EXPECT_TRUE(host->connection()->engine->corrupt(world.key(0), 100));
  EXPECT_FALSE(host->connection()->engine->corrupt("none", 0));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{4, 0}}), (std::vector<int32_t>{code::CHECKSUM_MISMATCH}));
  EXPECT_EQ(actor.run(layout::OPERATION_REMOVE, {{1, 1}}), (std::vector<int32_t>{code::OK}));
  actor.run(layout::OPERATION_REMOVE_ALL, {});
  EXPECT_EQ(actor.status, code::OK);
  EXPECT_EQ(host->statistics().keys, 0u);
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  EXPECT_TRUE(childrenOf(getpid()).empty());
}

TEST_F(ChildEngineTest, KilledAtAnyMomentEachBatchCompletesOnceAndTheNextChildServes) {
  open();
  Actor actor(host, world.id, 4, 64);
  constexpr int ROUNDS = 12;
  pid_t pid = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pid = awaitPid(pid);
    std::atomic<bool> killed{false};
    // The batches themselves are the clock: the later the round, the more of them go before the kill.
    std::atomic<int> batches{0};
    std::thread killer([&] {
      waitUntil([&] { return batches.load() >= round * 2; });
      kill(pid, SIGKILL);
      killed = true;
    });
    std::array<std::vector<Entry>, 4> entries;
    while (!killed.load() || isRunning(pid)) {
      for (uint32_t slot = 0; slot < 4; slot++) {
        entries[slot].clear();
        for (int32_t index = 0; index < 4; index++) {
          const int32_t block = static_cast<int32_t>(slot) * 4 + index;
          entries[slot].push_back({block, block % 8});
          if (slot % 2 == 0) world.fill(block, static_cast<uint8_t>(block % 8));
        }
        actor.fill(slot, slot % 2 == 0 ? layout::OPERATION_PUT : layout::OPERATION_GET, entries[slot], static_cast<int32_t>(slot));
        actor.channel->submit(slot);
      }
      std::set<int32_t> completed;
      for (int taken = 0; taken < 4; taken++) {
        const auto [slot, status, tag] = actor.take();
        EXPECT_TRUE(completed.insert(slot).second);
        EXPECT_EQ(tag, slot);
        EXPECT_TRUE(status == code::OK || status == code::ENGINE_DOWN) << status;
      }
      batches++;
      EXPECT_EQ(host->running(), 0u);
    }
    killer.join();
  }
  awaitPid(pid);
  EXPECT_EQ(host->status().reopenings, static_cast<uint32_t>(ROUNDS));
  ASSERT_TRUE(host->status().error.has_value());
  EXPECT_NE(host->status().error->problem.find("signal 9"), std::string::npos) << host->status().error->problem;
  // The pool died with its process; the memory is known to the next one.
  world.fill(0, 99);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 20}}), (std::vector<int32_t>{4608}));
  EXPECT_EQ(actor.run(layout::OPERATION_GET, {{1, 20}}), (std::vector<int32_t>{4608}));
  EXPECT_TRUE(world.holds(1, 99));
  EXPECT_EQ(actor.channel->inFlight(), 0u);
}

TEST_F(ChildEngineTest, AChildThatNeverAnswersIsEndedAndItsCallsWithIt) {
  ChildOptions options = childOptions();
  options.callTimeout = milliseconds(300);
  open(options);
  const pid_t pid = awaitPid();
  Actor actor(host, world.id);
  world.fill(0, 1);
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{4608}));
  stop(pid);
  // Two that hang: the first whose time is over ends the child, and the other ends with it.
  actor.fill(0, layout::OPERATION_GET, {{1, 0}});
  actor.fill(1, layout::OPERATION_EXISTS, {{2, 0}});
  actor.channel->submit(0);
  actor.channel->submit(1);
  std::set<int32_t> completed{actor.take()[0], actor.take()[0]};
  EXPECT_EQ(completed.size(), 2u);
  for (const uint32_t slot : {0u, 1u}) {
    const int32_t result = actor.results(slot, 1)[0];
    EXPECT_TRUE(result == code::ENGINE_ERROR || result == code::ENGINE_DOWN) << result;
  }
  EXPECT_FALSE(isRunning(pid));
  awaitPid(pid);
  EXPECT_NE(host->status().error->problem.find("did not answer"), std::string::npos) << host->status().error->problem;
  EXPECT_EQ(actor.run(layout::OPERATION_PUT, {{0, 0}}), (std::vector<int32_t>{4608}));
}

TEST_F(ChildEngineTest, AStoppedChildDoesNotHoldUpTheEnd) {
  ChildOptions options = childOptions();
  options.closeTimeout = milliseconds(50);
  open(options);
  const pid_t pid = awaitPid();
  stop(pid);
  EXPECT_EQ(host->close(std::chrono::minutes(1)), 0u);
  waitUntil([&] { return !isRunning(pid); });
}

TEST_F(ChildEngineTest, OtherMemoryThanAMemfdIsRefused) {
  ChildEngine engine(childOptions());
  engine.open([](const std::string&) {});
  std::vector<uint8_t> bytes(4096);
  const auto host = Memory::adoptHost(bytes.data(), bytes.size(), nullptr);
  std::string field;
  EXPECT_EQ(support::errorOf([&] { engine.registerMemory(*host); }, &field), "UNSUPPORTED");
  EXPECT_EQ(field, "memory");
  const auto memfd = Memory::createMemfd(4096);
  engine.registerMemory(*memfd);
  engine.unregisterMemory(*memfd);
  // Memory that the child does not know ends the child: it would be written to an address that means something else there.
  PoolRequest request;
  request.begin(layout::OPERATION_PUT);
  request.addKey(1)[0] = 'a';
  request.addSegment(*memfd, 0, 16);
  EXPECT_EQ(engine.run(request), code::ENGINE_DOWN);
  EXPECT_EQ(engine.pid(), -1);
}

TEST_F(ChildEngineTest, WhatCannotStartSaysWhy) {
  ChildOptions options = childOptions();
  options.executable = "/nowhere/mooncake-kv-engine";
  open(options);
  waitFor(EngineState::failed);
  EXPECT_EQ(host->status().error->code, "CONFIGURATION");
  EXPECT_EQ(host->status().error->value, "/nowhere/mooncake-kv-engine");
  host->close(std::chrono::minutes(1));

  // An engine that refuses its options does so through its process.
  options = childOptions();
  options.inner = std::make_shared<const EngineOptions>(LocalOptions{.poolName = "", .bytesMax = 1, .ioThreads = 1});
  open(options);
  waitFor(EngineState::failed);
  EXPECT_EQ(host->status().error->code, "INVALID_VALUE");
  EXPECT_EQ(host->status().error->field, "poolName");
  host->close(std::chrono::minutes(1));

  // A program that knows nothing of this ends at once, and is tried again.
  options = childOptions();
  options.executable = "/bin/sh";
  options.arguments = {"-c", "echo W none.cc:1 goodbye >&2; exit 7"};
  mooncake::takeWheelLog(mooncake::LOG_LINES_MAX);
  open(options);
  waitFor(EngineState::down);
  EXPECT_EQ(host->status().error->code, "UNREACHABLE");
  std::vector<mooncake::LogLine> lines;
  waitUntil([&] { return !(lines = mooncake::takeWheelLog(1)).empty(); });
  EXPECT_EQ(lines[0].source, "none.cc:1");
  EXPECT_EQ(lines[0].text, "goodbye");
  EXPECT_EQ(lines[0].severity, 1);
  EXPECT_EQ(support::errorOf([&] { engineRecipe(ChildOptions{}); }), "INVALID_VALUE");
}

TEST_F(ChildEngineTest, AProgramOfAnotherProtocolIsRefusedByBothEnds) {
  ChildOptions options = childOptions();
  options.executable = MOONCAKE_KV_FAKE_CHILD;
  options.arguments = {"1"};
  open(options);
  waitFor(EngineState::failed);
  EXPECT_EQ(host->status().error->code, "CONFIGURATION");
  EXPECT_NE(host->status().error->problem.find("of another version"), std::string::npos) << host->status().error->problem;
  host->close(std::chrono::minutes(1));
  waitUntil([] { return childrenOf(getpid()).empty(); });

  // The engine's own program says what it speaks, and ends.
  auto [ours, theirs] = child::socketPair();
  const auto devNull = child::Descriptor(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const pid_t pid = child::spawn(childOptions(), theirs, devNull);
  theirs = child::Descriptor();
  child::Wire wire(std::move(ours));
  std::vector<uint8_t> bytes;
  child::Writer writer(bytes);
  writer(child::Kind::hello, child::MAGIC, child::PROTOCOL + 1, uint32_t{0});
  ASSERT_EQ(wire.send(writer.finish()), child::Outcome::done);
  std::span<const uint8_t> answer;
  ASSERT_EQ(wire.receive(answer), child::Outcome::done);
  child::Reader reader(answer);
  EXPECT_EQ(reader.take<child::Kind>(), child::Kind::welcome);
  EXPECT_EQ(reader.take<uint32_t>(), child::PROTOCOL);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 76) << status;
}

TEST_F(ChildEngineTest, ClosedWhileAChildOpensItIsKilled) {
  ChildOptions options = childOptions();
  options.executable = MOONCAKE_KV_FAKE_CHILD;
  options.arguments = {"0"};
  // At once, when its process may not be there yet, and when it is there and hears nothing: neither takes its 110 s.
  for (const bool waits : {false, true}) {
    open(options);
    if (waits) waitUntil([] { return !childrenOf(getpid()).empty(); });
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(host->close(milliseconds(0)), 0u);
    waitUntil([&] { return host->status().hungOpens == 0 && childrenOf(getpid()).empty(); });
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    host.reset();
  }
}

TEST_F(ChildEngineTest, TheDeathOfItsParentLeavesNoChild) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl(MOONCAKE_KV_CHILD_PARENT, "child_engine_parent", MOONCAKE_KV_ENGINE_PROGRAM, nullptr);
    _exit(1);
  }
  close(ends[1]);
  pid_t grandchild = 0;
  ASSERT_EQ(read(ends[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  close(ends[0]);
  EXPECT_TRUE(isRunning(grandchild));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  waitUntil([&] { return !isRunning(grandchild); });
}

}  // namespace
}  // namespace child_engine_test
