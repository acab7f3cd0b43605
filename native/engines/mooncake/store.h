// One MooncakeDistributedStore of the wheel, called from C++.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/pool_request.h"
#include "engines/engine_options.h"
#include "engines/mooncake/python/objects.h"
#include "engines/mooncake/replicas.h"
#include "engines/mooncake/transfer.h"

namespace mooncake_kv::mooncake {

/** Codes of the wheel (ErrorCode in its store) that mean something to us, beyond those in core/codes.h. */
namespace wheel_code {
inline constexpr int32_t REPLICA_IS_NOT_READY = -703;
/** A put in steps: this process is putting the same key already. */
inline constexpr int32_t INVALID_PARAMS = -600;
/** Up to and including FILE_LAST: a file of a value could not be found, opened or read. */
inline constexpr int32_t FILE_FIRST = -1100, FILE_LAST = -1199;
inline constexpr int32_t OBJECT_ALREADY_EXISTS = -705;
/** A transfer failed, or a get's buffer is larger than the value. */
inline constexpr int32_t TRANSFER_FAIL = -800;
inline constexpr int32_t RPC_FAIL = -900;
inline constexpr int32_t RPC_TIMEOUT = -901;
/** The master does not answer, or not in time. */
constexpr bool isUnanswered(int32_t wheelCode) { return wheelCode == RPC_FAIL || wheelCode == RPC_TIMEOUT; }
constexpr bool isOfFile(int32_t wheelCode) { return wheelCode <= FILE_FIRST && wheelCode >= FILE_LAST; }
}  // namespace wheel_code

/** Texts of keys. */
using Names = std::vector<std::string>;

/** A key that nobody writes: asked for to see whether the master answers. */
inline constexpr const char* ANSWER_PROBE_KEY = "mooncake-kv-answers";

/**
 * Any thread. The interpreter's lock is held while arguments and results are converted; the wheel gives it up while it works, save in
 * `setup` and `close`. Results are the wheel's codes, one a key. What Python raises comes out as python::Raised.
 *
 * Nothing may be called after the wheel's `close` (it would touch freed memory), so that runs only when nobody has the store any
 * more: on a thread of its own, for it may take 10 s.
 */
class Store {
 public:
  /** Starts the interpreter and imports the wheel, once. Throws Error CONFIGURATION with the command that mends it. */
  static void importWheel(const MooncakeOptions& options);
  /** Throws Error; UNREACHABLE when the wheel says no, with its last log line. May take 15 s against a master that hangs. */
  static std::shared_ptr<Store> setUp(const MooncakeOptions& options);
  /** Whether a call spins while the store's one transport thread works for it. */
  static bool spins(const MooncakeOptions& options) { return options.protocol == "tcp"; }
  /** Lets a thread of its own close the wheel's store, unless `close` has. */
  ~Store();
  /**
   * Once, with no call in it and none to come but `unregisterMemory`. Takes 2 s, without a master 10. True: no transfer of this
   * store touches any memory any more. False: the wheel raised, and nothing is known.
   */
  bool close();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  void exists(const PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results);
  void put(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results);
  void get(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results);
  /** Where the values of `keys` lie now. Leases them, as a get does. */
  void replicas(const PoolRequest& request, const std::vector<uint32_t>& keys, ReplicaLists& lists);
  void replicas(const std::string& key, ReplicaLists& lists);
  void remove(const PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results);

  /**
   * A put in three steps, which tell what the put of one step does not: whether a value is this call's. False: the wheel has none.
   * Each name that `startPut` answered with 0 is nobody else's until `endPut`, from when on it is readable, or `revokePut`, which
   * takes it back. A name may be ended without a transfer: its value is then one nobody wrote.
   */
  bool knowsSteps() const;
  /** `ofKeys`: the keys that names belong to, for their groups. */
  void startPut(const Names& names, const std::vector<uint64_t>& bytes, const Names& ofKeys, std::vector<int32_t>& results);
  /** Bytes of each value, or a code. */
  void transferPut(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results);
  /** Values of `bytesEach` bytes, one after the other from `from`. */
  void transferPut(const Names& names, const uint8_t* from, uint64_t bytesEach, std::vector<int32_t>& results);
  void endPut(const Names& names, std::vector<int32_t>& results);
  void revokePut(const Names& names);

  void exists(const Names& keys, std::vector<int32_t>& results);
  void get(const Names& keys, uint8_t* to, uint64_t bytesEach, std::vector<int32_t>& results);
  void remove(const Names& keys, std::vector<int32_t>& results);

  int64_t exists(const std::string& key);
  /** Bytes of a value, or a code. */
  int64_t size(const std::string& key);
  std::vector<uint8_t> getValue(const std::string& key);
  int64_t putValue(const std::string& key, const std::vector<uint8_t>& value);
  /** Without `force` keys stay that a reader has leased (for 10 s after it asked for them): OBJECT_HAS_LEASE. */
  int64_t remove(const std::string& key, bool force);
  /** Both answer how many keys went, or a code; without `force` leased ones stay. */
  int64_t removeMatching(const std::string& pattern, bool force);
  int64_t removeAll(bool force);
  /** 0: the master answers the wheel's own pings (once a second). Costs microseconds. */
  int64_t health();

  /** Counts holds of the same range, so that a successor may register what a call that hangs still has. 0, or a code. */
  int64_t registerMemory(const uint8_t* address, uint64_t bytes);
  /** Does nothing in a store that is closed: it has let go of all. */
  void unregisterMemory(const uint8_t* address, uint64_t bytes);

 private:
  struct Methods;

  Store();
  static bool end(std::shared_ptr<Methods> methods);
  void readReplicas(python::Object* keys, size_t count, ReplicaLists& lists);
  python::Ref keyList(const PoolRequest& request, const std::vector<uint32_t>& keys) const;
  /** One a call: the wheel reads it while it works, without the interpreter's lock, and other threads put too. */
  python::Ref configOfGroups(const PoolRequest& request, const std::vector<uint32_t>& keys) const;
  python::Ref configOfGroups(const Names& ofKeys) const;

  std::unique_ptr<Methods> methods_;
  std::mutex registrationMutex_;
  std::map<std::pair<const uint8_t*, uint64_t>, uint32_t> registrations_;
};

}  // namespace mooncake_kv::mooncake
