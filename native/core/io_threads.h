// The threads that run batches and control calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace mooncake_kv {

/**
 * A queue and the threads that serve it. Its length is bounded by who pushes (batch slots of channels, the host's limit of
 * control calls). May be destroyed from any thread, one of its own included (the last batch may hold the last reference to its
 * engine); what is queued then must have been worked off.
 */
class IoThreads {
 public:
  struct Task {
    void (*run)(const Task&);
    void* subject;
    uint32_t from;
    uint32_t to;
  };
  /** So many threads may be given up as hanging; more are waited for. */
  static constexpr uint32_t REPLACED_MAX = 64;

  /** `name`: at most 10 characters, seen in tools. */
  IoThreads(std::string name, uint32_t threads);
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  uint32_t size() const { return size_; }
  void push(const Task& task);

  /** Threads in a task that they began before `nanoseconds` (monotonic), given up ones included. */
  uint32_t busySince(uint64_t nanoseconds) const;
  /** Puts a new thread in the place of each that is in a task since before `nanoseconds`; the old one ends with its task. */
  void replaceBusySince(uint64_t nanoseconds);

 private:
  /** One thread; shared with it, because it may outlive this object. */
  struct Worker {
    /** Monotonic nanoseconds; 0: idle. */
    std::atomic<uint64_t> busySince{0};
    // Under the queue's mutex.
    bool replaced = false;
  };
  struct Queue {
    std::mutex mutex;
    std::condition_variable filled;
    std::deque<Task> tasks;
    bool stopped = false;
  };

  static void serve(Queue& queue, Worker& worker);
  std::thread start(const std::shared_ptr<Worker>& worker);

  const std::string name_;
  const uint32_t size_;
  const std::shared_ptr<Queue> queue_;
  // Under the queue's mutex.
  std::vector<std::shared_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<Worker>> replaced_;
  std::vector<std::thread> threads_;
};

}  // namespace mooncake_kv
