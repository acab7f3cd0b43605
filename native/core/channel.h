// How one actor hands batches to an engine and gets their completions (layout.ts, "Engine channel").
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/batch.h"
#include "core/engine_host.h"
#include "core/memory.h"

namespace mooncake_kv {

/** Wakes whoever opened the wake handle; false when nobody has. Any thread, never blocks. */
using Wake = bool (*)(int32_t wakeId);

/**
 * `submit` is called by the channel's actor; completions come from I/O threads, which write the ring under the channel's
 * mutex. The channel outlives its actor: a restarted one goes on with the same memory. Nobody is inside the channel's memory
 * while the engine works, so the end of the thread that owns it never waits for an engine; a batch that returns later is dropped.
 */
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  static constexpr int64_t BATCH_SLOTS_MAX = 1 << 16;
  static constexpr int64_t KEYS_PER_BATCH_MAX = 1 << 20;

  struct Options {
    std::shared_ptr<EngineHost> engine;
    std::shared_ptr<Memory> memory;
    int64_t wordOffset = 0;
    int64_t batchSlots = 0;
    int64_t keysPerBatchMax = 0;
    int32_t wakeId = 0;
    Wake wake = nullptr;
  };

  /** Throws Error when the channel does not fit its memory. */
  static std::shared_ptr<Channel> open(Options options);

  /**
   * Hands a batch slot to the engine; its words are filled and its state is SUBMITTED. Never blocks. Throws Error when the slot
   * or its header is wrong: the batch is then not in flight. While the engine is not open, the batch completes at once with ENGINE_DOWN, after it closed with CLOSED.
   */
  void submit(int64_t slot);
  /** Takes no more batches; returns how many are in flight. */
  uint32_t close();
  uint32_t inFlight() const { return inFlight_.load(std::memory_order_acquire); }

 private:
  using Memories = std::span<const std::shared_ptr<Memory>>;

  explicit Channel(Options options);

  Batch& checkedBatch(int64_t slot);
  void fillFromHeader(Batch& batch);
  uint32_t partsOf(const Batch& batch) const;
  static void runPart(const IoThreads::Task& task);
  /** Runs a part; returns its status. Results are in the batch afterwards, if its memory is still there. */
  int32_t run(const Batch& batch, uint32_t from, uint32_t to);
  /** False when there is no memory for the request; it is empty then. */
  bool tryFill(PoolRequest& request, std::vector<uint32_t>& places, const Batch& batch, uint32_t from, uint32_t to);
  static void fill(PoolRequest& request, std::vector<uint32_t>& places, const Batch& batch, uint32_t from, uint32_t to);
  /** The status; the request holds its results. */
  static int32_t answer(EngineHost& host, const KeySpace* keySpace, PoolRequest& request);
  static int32_t askInTransit(EngineHost& host, const KeySpace& keySpace, PoolRequest& request);
  /** As `reach`; ENGINE_ERROR: there is no buffer, or the engine takes no more than it has. */
  static int32_t reachInTransit(EngineHost& host, EngineConnection& connection, Transit::Lease& buffer);
  /** With the memory that the request names, if the engine has to know it. */
  static int32_t ask(EngineHost& host, Memories memories, PoolRequest& request);
  /** OK when the engine knows the memory. If it refuses it, the engine has FAILED. */
  static int32_t reach(EngineHost& host, EngineConnection& connection, Memories memories);
  /** Completes a batch that the engine does not take. */
  void refuse(Batch& batch, int32_t status);
  /** Inside the channel's memory. */
  void complete(Batch& batch);
  /** After the thread of the channel's memory has ended: nobody waits for the batch any more. */
  void drop(Batch& batch);
  void pushCompletion(Batch& batch, int32_t status, int32_t microseconds);

  const Options options_;
  int32_t* const words_;
  const uint32_t ringMask_;
  std::vector<Batch> batches_;
  std::atomic<uint32_t> inFlight_{0};
  std::atomic<bool> closed_{false};
  std::mutex ringMutex_;
};

}  // namespace mooncake_kv
