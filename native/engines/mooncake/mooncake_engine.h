// The engine over a Mooncake pool: the wheel's store inside this process.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/engine.h"
#include "engines/engine_options.h"
#include "engines/mooncake/call_plan.h"
#include "engines/mooncake/checksums.h"
#include "engines/mooncake/connection.h"
#include "engines/mooncake/refused_keys.h"

namespace mooncake_kv::mooncake {

/**
 * A transfer that fails so late was given up by the wheel: it waits 60 s for one and then answers TRANSFER_FAIL without ending it.
 * What fails by itself does so sooner (over TCP after MC_TCP_PROGRESS_TIMEOUT_SEC, 10 s), and is over then.
 */
inline constexpr std::chrono::milliseconds WHEEL_GIVES_UP_AFTER{55'000};

/**
 * Values are the plain concatenation of their segments, byte for byte what vLLM stores; checksums have keys of their own. Put: one
 * replica, in the preferred segment if one is named. A request that the master does not answer is ENGINE_DOWN, and the connection
 * is reported lost.
 *
 * A call with a transfer that the wheel has given up reports the connection lost and returns when the store has been closed, which
 * other calls in the store may hold up, for ever if they never return: until then the transfer may write into KV blocks, or read
 * them into the pool.
 */
class MooncakeEngine final : public Engine {
 public:
  /** `wheelGivesUpAfter`: test seam. `refused`: of the host, over all its connections. */
  MooncakeEngine(const MooncakeOptions& options, std::shared_ptr<Parked> parked,
                 std::chrono::milliseconds wheelGivesUpAfter = WHEEL_GIVES_UP_AFTER,
                 std::shared_ptr<RefusedKeys> refused = std::make_shared<RefusedKeys>())
      : options_(options),
        limits_(callLimits(options)),
        wheelGivesUpAfter_(wheelGivesUpAfter),
        parked_(std::move(parked)),
        refused_(std::move(refused)) {}
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
  /** None when the connection is lost; it is when the pool retires. */
  Pool::Visit visit();
  /** Only within a visit. */
  Store& store() const { return *connection_->pool->store; }
  int32_t runExists(PoolRequest& request);
  int32_t runRemove(PoolRequest& request);
  /** With the buffer in which its values are gathered, if they are. */
  std::pair<PlannedCall, Staging::Lease> nextCallStaged(const PoolRequest& request, uint32_t from);
  int32_t runPut(PoolRequest& request, Pool::Visit& visit);
  int32_t runGet(PoolRequest& request, Pool::Visit& visit);
  /** After a call that began at `began` and has transferred: whether its end can be taken for the end of its transfers. */
  void endTransfer(Pool::Visit& visit, Pool::Clock::time_point began, bool failed);
  /** Reports the loss; keys from `from` on are ENGINE_DOWN, and so is the request. */
  int32_t goDown(PoolRequest& request, uint32_t from, const char* reason);
  bool masterAnswers();
  /** After a call: values that arrived and were removed under it are no values. False: the master does not answer. */
  bool refuseRemoved(PoolRequest& request, const PlannedCall& call, const ReplicaLists& before);
  /** As the wheel's put, with checksums beside what this call has stored. */
  void putChecked(PoolRequest& request, const PlannedCall& call, const uint8_t* staged, const Transfer& transfer, std::vector<int32_t>& results);
  /** Writes the checksums; those that cannot be are taken back. */
  void writeMarks(std::vector<CheckedPut>& puts, const std::vector<Digest>& digests, uint32_t from, Names& back);
  void endPuts(const std::vector<CheckedPut>& puts, uint32_t from, std::vector<int32_t>& results);
  /** Of a call's refused keys the values that may go now. */
  void removeRefused(const PoolRequest& request, const PlannedCall& call);
  /** Values that arrived and do not fit their checksums are refused. False: the master does not answer. */
  bool checkArrived(PoolRequest& request, const PlannedCall& call, const uint8_t* staged);
  /** Values whose checksums are not among the names: those that the marks hold decide. */
  void compareMarks(PoolRequest& request, const std::vector<uint32_t>& doubtful, const Names& marks, const std::vector<Digest>& digests,
                    uint32_t from);
  void refuse(PoolRequest& request, uint32_t index, int32_t code);
  /** One value on an owner's disk that cannot be read fails all of a call that the owner has: each is asked for alone. */
  void readAlone(PoolRequest& request, const PlannedCall& call, const Transfer& transfer, std::vector<int32_t>& results);
  /** Values whose bytes will never come are refused. */
  void refuseUnreadable(PoolRequest& request, const PlannedCall& call, const ReplicaLists& before, const std::vector<int32_t>& results);
  void askExists(PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results);
  int32_t putResult(const PoolRequest& request, uint32_t index, int32_t wheelCode);
  void setMiss(PoolRequest& request, uint32_t index);
  void readResult(PoolRequest& request, uint32_t index, int32_t wheelCode, bool& sizesDiffer);

  ControlReply getValue(const std::string& key, Pool::Visit& visit);
  ControlReply putValue(const std::string& key, const std::vector<uint8_t>& value, Pool::Visit& visit);
  ControlReply removeMatching(const std::string& pattern, const ControlRequest& request);
  ControlReply failed(int64_t wheelCode, const char* call);

  const MooncakeOptions options_;
  const CallLimits limits_;
  const std::chrono::milliseconds wheelGivesUpAfter_;
  const std::shared_ptr<Parked> parked_;
  const std::shared_ptr<RefusedKeys> refused_;
  const std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
  std::mutex registeredMutex_;
  std::vector<std::pair<const uint8_t*, uint64_t>> registered_;
  std::atomic<uint64_t> puts_{0}, putRefusals_{0}, gets_{0}, getMisses_{0};
};

}  // namespace mooncake_kv::mooncake
