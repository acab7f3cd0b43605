// The threads that run batches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mooncake_kv {

class Batch;

/**
 * A queue and the threads that serve it. Its length is bounded by the batch slots of the channels in front of it. May be
 * destroyed from any thread, one of its own included (the last batch may hold the last reference to its engine); what is
 * queued then must have been worked off.
 */
class IoThreads {
 public:
  struct Task {
    Batch* batch;
    uint32_t from;
    uint32_t to;
  };
  using Run = void (*)(const Task&);

  IoThreads(uint32_t threads, Run run);
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(threads_.size()); }
  void push(const Task& task);

 private:
  /** Shared with the threads, so that a detached one may outlive this object. */
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<Task> tasks;
    bool stopped = false;
  };

  const std::shared_ptr<Queue> queue_;
  std::vector<std::thread> threads_;
};

}  // namespace mooncake_kv
