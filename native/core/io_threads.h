// The threads that run batches and control calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace mooncake_kv {

/**
 * Lanes of tasks, each with a limit of how many run at a time, and as many threads as all limits together: tasks of one lane that
 * hang never stop another lane. The thread that worked last works next: its caches and its heap are warm, and the scheduler keeps
 * it and the threads that its calls wake on the processors where they are. The length of a lane is bounded by who pushes (batch
 * slots of channels, the host's limit of control calls). May be destroyed from any thread, one of its own included (the last
 * batch may hold the last reference to its engine); what is queued then must have been worked off.
 */
class IoThreads {
 public:
  struct Task {
    /** Gets a copy of the task; must not throw. */
    void (*run)(const Task&) = nullptr;
    void* subject = nullptr;
    uint32_t from = 0;
    uint32_t to = 0;
    /** The lane's, while it waits. */
    Task* next = nullptr;
  };
  /** So many threads may be given up as hanging; more are waited for. */
  static constexpr uint32_t REPLACED_MAX = 64;

  /**
   * `limits`: by lane; 0 for a lane that gets no tasks. `firstHalf`: the threads keep to HalfOfProcessors::Half::first. Throws
   * std::system_error when the system has no more threads.
   */
  IoThreads(std::span<const uint32_t> limits, bool firstHalf);
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  uint32_t limit(size_t lane) const { return pool_->lanes[lane].limit; }
  /** `task` stays where it is until it runs. Needs no memory, so that what was counted in always comes to run. */
  void push(size_t lane, Task& task) noexcept;

  /** Threads in a task that they began before `nanoseconds` (monotonic), given up ones included. */
  uint32_t busySince(uint64_t nanoseconds) const;
  /**
   * Puts a new thread in the place of each that is in a task since before `nanoseconds`, as far as the system gives threads; the
   * old one ends with its task.
   */
  void replaceBusySince(uint64_t nanoseconds);

 private:
  /** One thread; shared with it, because it may outlive this object. All but `busySince` under the pool's mutex. */
  struct Worker {
    /** Monotonic nanoseconds; 0: idle. Written under the mutex when a task begins. */
    std::atomic<uint64_t> busySince{0};
    std::condition_variable given;
    bool hasTask = false;
    Task task{};
    size_t lane = 0;
    bool replaced = false;
  };
  struct Lane {
    uint32_t limit = 0;
    uint32_t running = 0;
    Task* first = nullptr;
    Task* last = nullptr;
  };
  struct Pool {
    std::mutex mutex;
    // Under the mutex, but for the limits, which never change.
    std::vector<Lane> lanes;
    /** The last one works next. */
    std::vector<Worker*> idle;
    bool stopped = false;
    /** Never changes. */
    bool firstHalf = false;

    bool give(size_t lane, Worker& worker);
    bool giveAny(Worker& worker);
  };

  static void serve(Pool& pool, Worker& worker);
  std::thread start(const std::shared_ptr<Worker>& worker);
  void stop();

  const std::shared_ptr<Pool> pool_;
  // Under the pool's mutex.
  std::vector<std::shared_ptr<Worker>> workers_;
  std::vector<std::shared_ptr<Worker>> replaced_;
  std::vector<std::thread> threads_;
};

}  // namespace mooncake_kv
