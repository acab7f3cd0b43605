// What a person sets of each kind of engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace mooncake_kv {

/** A bounded pool in the memory of this process. */
struct LocalOptions {
  std::string poolName;
  uint64_t bytesMax = 0;
  uint32_t ioThreads = 0;
  bool verifyChecksums = false;
};

/** What gets do about checksums that puts keep beside the values (mooncake/checksums.h). */
enum class Verify : uint8_t {
  /** There are none. */
  off = 0,
  /** A value without one is used. */
  whenPresent = 1,
  /** A value without one is a miss. */
  require = 2,
};

/** Mooncake's store out of its Python wheel, inside this process. Empty text and 0: not given. */
struct MooncakeOptions {
  /** The interpreter whose packages hold the wheel, and the library that it is made of, where that is not found by itself. */
  std::string pythonExecutable;
  std::string pythonLibrary;
  /** Under which others reach this process; empty: its address on the way out, as vLLM takes it. */
  std::string localHostname;
  std::string metadataServer;
  /** Memory that this process gives to the pool; 0: an owner elsewhere gives it all. */
  uint64_t globalSegmentBytes = 0;
  uint64_t localBufferBytes = 0;
  /** "tcp" or "rdma". */
  std::string protocol;
  std::string deviceName;
  std::string masterServerAddress;
  std::string preferredSegment;
  std::string tenantId;
  bool enableOffload = false;
  /** Puts name the group of each value, so that the store evicts a chunk as a whole (mooncake/lifecycle_group.h). */
  bool groupSemantics = false;
  /** Gets tell the tier of each value. */
  bool reportTiers = false;
  Verify verify = Verify::off;
  /** Gets count only if nothing was removed under them. False: for measurements of what that costs. */
  bool checkRemovals = true;
  /** Bounds of one call into the store; larger requests are cut. */
  uint32_t keysPerCallMax = 0;
  uint64_t bytesPerCallMax = 0;
  uint32_t transferQueueMax = 0;
  /** File that the wheel's log goes to. */
  std::string logPath;
  uint32_t existsThreads = 2;
  uint32_t getThreads = 4;
  uint32_t putThreads = 4;
};

struct ChildOptions;

/** One member a kind of engine. */
using EngineOptions = std::variant<LocalOptions, MooncakeOptions, ChildOptions>;

/** An engine in a process of its own, behind a socket, over the same memfd regions. */
struct ChildOptions {
  /** The program that serves the engine, and its arguments in front of those that this side adds. */
  std::string executable;
  std::vector<std::string> arguments;
  /** What the child opens; never null, never a child itself. */
  std::shared_ptr<const EngineOptions> inner;
  uint32_t existsThreads = 2;
  uint32_t getThreads = 4;
  uint32_t putThreads = 4;
  /**
   * A call that the child does not answer for so long ends with the child: only its death tells that nothing writes into the call's
   * blocks any more. Longer than the longest call that ends by itself (the wheel's reads from a dead owner: 60 s).
   */
  std::chrono::milliseconds callTimeout{90'000};
  /** Shorter than EngineHost::Options::openTimeout, so that what hangs here is ended here. */
  std::chrono::milliseconds openTimeout{110'000};
  /** How long the child may take to close its engine. */
  std::chrono::milliseconds closeTimeout{4'000};
};

}  // namespace mooncake_kv
