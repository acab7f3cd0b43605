// The engine over a Mooncake pool: the wheel's store inside this process.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "engines/engine_options.h"
#include "engines/mooncake/call_plan.h"
#include "engines/mooncake/staging.h"
#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

/** A store and what belongs to it as long as it lives. */
struct Pool {
  Pool(std::shared_ptr<Store> store, size_t stagingBytes) : store(store), staging(std::move(store), stagingBytes) {}
  const std::shared_ptr<Store> store;
  Staging staging;
};

/**
 * Keeps the store of a connection that was lost for the next one. The wheel goes on pinging a master that is gone and joins again
 * within 1.5 s when it is back, with its own memory; a second store would double that memory. Shared by the engines of one host.
 */
class Parked {
 public:
  void put(std::shared_ptr<Pool> pool);
  std::shared_ptr<Pool> take();
  /**
   * Told at each try to use the parked store again that failed, whether the master accepts connections meanwhile. True: it has for
   * so long that the store will not find back to it.
   */
  bool isStuck(bool masterAccepts);
  /** True at the first call: a first `open` says at once what is wrong, later ones wait for the master a while. */
  bool isFirstOpen();

 private:
  std::mutex mutex_;
  bool opened_ = false;
  std::shared_ptr<Pool> pool_;
  std::optional<std::chrono::steady_clock::time_point> acceptsSince_;
};

/** What calls and the watch tell of a loss; outlives the engine. */
struct Connection {
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Parked> parked;
  Engine::Lost report;
  std::atomic<bool> isLost{false};
  std::atomic<bool> ended{false};

  /** Once, and not after `end`. */
  void lose(const std::string& reason);
  /** Returns the pool unless it is parked. */
  std::shared_ptr<Pool> end();

 private:
  std::mutex mutex_;
};

/**
 * Values are the plain concatenation of their segments, byte for byte what vLLM stores, so there is no checksum of ours. Put: one
 * replica, in the preferred segment if one is named. A request that the master does not answer is ENGINE_DOWN, and the connection
 * is reported lost.
 */
class MooncakeEngine final : public Engine {
 public:
  MooncakeEngine(const MooncakeOptions& options, std::shared_ptr<Parked> parked)
      : options_(options), limits_(callLimits(options)), parked_(std::move(parked)) {}
  ~MooncakeEngine() override;

  void open(Lost lost) override;
  void close() override;
  void registerMemory(const Memory& memory) override;
  void unregisterMemory(const Memory& memory) override;
  int32_t run(PoolRequest& request) override;
  ControlReply control(const ControlRequest& request) override;
  EngineStatistics statistics() const override;

 private:
  /** The store of the connection before, once it reaches its master again; null when there is none, throws Error while it does not. */
  std::shared_ptr<Pool> reviveParked();
  void requireMaster(bool first) const;
  Store& store() const { return *connection_->pool->store; }
  int32_t runExists(PoolRequest& request);
  int32_t runRemove(PoolRequest& request);
  int32_t runPut(PoolRequest& request);
  int32_t runGet(PoolRequest& request);
  /** Reports the loss; keys from `from` on are ENGINE_DOWN, and so is the request. */
  int32_t goDown(PoolRequest& request, uint32_t from, int32_t wheelCode);
  bool masterAnswers();
  void askTiers(PoolRequest& request, const std::vector<uint32_t>& keys, std::vector<int32_t>& tiers);
  void readResult(PoolRequest& request, uint32_t index, int32_t wheelCode, bool& sizesDiffer);

  ControlReply getValue(const std::string& key);
  ControlReply putValue(const std::string& key, const std::vector<uint8_t>& value);
  ControlReply removed(int64_t count);
  ControlReply failed(int64_t wheelCode, const char* call);

  const MooncakeOptions options_;
  const CallLimits limits_;
  const std::shared_ptr<Parked> parked_;
  const std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  std::mutex registeredMutex_;
  std::vector<std::pair<const uint8_t*, uint64_t>> registered_;
  std::atomic<uint64_t> puts_{0}, putRefusals_{0}, gets_{0}, getMisses_{0};
};

}  // namespace mooncake_kv::mooncake
