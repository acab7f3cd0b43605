// What a storage engine is to the rest of native code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/control_call.h"
#include "core/memory.h"
#include "core/pool_request.h"

namespace mooncake_kv {

struct EngineStatistics {
  uint64_t bytesMax = 0;
  uint64_t bytesUsed = 0;
  uint64_t keys = 0;
  uint64_t evictions = 0;
  uint64_t puts = 0;
  uint64_t putRefusals = 0;
  uint64_t gets = 0;
  uint64_t getMisses = 0;
};

/** I/O threads for each class of operations, so that calls of one class that hang never stop another. */
struct LaneThreads {
  /** Serves every class that has no threads of its own. */
  uint32_t shared = 0;
  uint32_t exists = 0;
  uint32_t get = 0;
  uint32_t put = 0;
  /** Removals and ControlRequests. */
  uint32_t control = 0;
};

/** What the host must know before there is an engine. */
struct EngineTraits {
  LaneThreads lanes{};
  /**
   * Calls may take minutes or never return. `open` and `close` then run on threads of their own; KV memory that a call may touch
   * is kept instead of waited for; values in memory of a JavaScript thread travel in memory of ours (transit.h). False: `open` runs in
   * openEngine.
   */
  bool mayHang = false;
  /** A put or get that moves at least twice as much is split among the threads of its lane; 0: never split. */
  uint64_t partBytesMin = 0;
  /** A lookup of at least twice as many keys is split among the threads of its lane; 0: never split. */
  uint32_t partKeysMin = 0;
  /** Calls keep a processor busy while threads of the engine's own work for them: I/O threads keep to one half of the processors. */
  bool spins = false;
};

/**
 * One connection to a pool: opened once, closed once; after a loss the host makes a new one and lets go of the old when the last
 * call in it has returned. All functions may be called from any thread at any time after `open` has returned.
 */
class Engine {
 public:
  /** Any thread, any number of times, also during `open`: the connection is of no use any more. Text for a person. Never blocks. */
  using Lost = std::function<void(const std::string& reason)>;

  virtual ~Engine() = default;

  /**
   * Throws Error. Its code decides what follows: CONFIGURATION, UNSUPPORTED, INVALID_VALUE and INVALID_TYPE are final (the engine
   * is FAILED until a person changes something), all others, UNREACHABLE above all, are tried again with back-off.
   */
  virtual void open(Lost) {}
  /**
   * Nobody waits for this connection any more while `open`, or a registration of memory after it, is under way: that should end soon,
   * however it ends. Any thread, also during `open`. Never blocks.
   */
  virtual void abandon() {}
  /**
   * Never called when `open` threw, nor while a call is in flight: a connection in which a call hangs is destroyed without it, when
   * that call has returned.
   */
  virtual void close() {}

  /**
   * Before the first request that names this memory, and again on each new connection; any number of threads, each memory once.
   * Throws Error: UNREACHABLE when the connection was lost meanwhile, any other makes the engine FAILED. The host holds the memory
   * until `unregisterMemory` has returned.
   */
  virtual void registerMemory(const Memory&) {}
  virtual void unregisterMemory(const Memory&) {}

  /**
   * Works a request off: one result a key. Returns OK, or a code below 0 when the engine as a whole failed: that stands for all
   * keys then. Keys that fail alone leave the status OK. An exception counts as ENGINE_ERROR.
   */
  virtual int32_t run(PoolRequest& request) = 0;
  virtual ControlReply control(const ControlRequest& request) = 0;

  /** Never blocks. */
  virtual EngineStatistics statistics() const = 0;
  /** Test seam: flips one bit of a stored value and leaves its checksum; false when the key is absent. */
  virtual bool corrupt(const std::string&, uint64_t) { return false; }
};

/** Makes an engine that is not open yet. May be called on any thread; throws Error as `Engine::open`. */
using MakeEngine = std::function<std::shared_ptr<Engine>()>;

}  // namespace mooncake_kv
