// An engine that opens late, fails to open, is lost, or hangs, as its test says.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support.h"

namespace support {

/** Closed until `open`; whoever passes waits. */
class Gate {
 public:
  void pass() {
    waiting.fetch_add(1);
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  std::atomic<int> waiting{0};

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

/** What all connections of one host share: the test's orders, and what the host did. */
struct Faults {
  /** Called by the open of each connection, with its number from 1. May throw or wait. */
  std::function<void(int)> onOpen;
  std::function<void()> onClose;
  std::function<void(int32_t operation)> onRun;
  std::function<void()> onControl;
  std::function<void()> onRegister;

  std::atomic<int> opens{0};
  std::atomic<int> closes{0};
  std::atomic<int> registrations{0};
  std::atomic<int> alive{0};
  std::mutex mutex;
  /** Of the last connection that was opened. */
  Engine::Lost lost;
};

class FaultyEngine final : public Engine {
 public:
  explicit FaultyEngine(std::shared_ptr<Faults> faults) : faults_(std::move(faults)) { faults_->alive.fetch_add(1); }
  ~FaultyEngine() override { faults_->alive.fetch_sub(1); }

  void open(Lost lost) override {
    const int number = faults_->opens.fetch_add(1) + 1;
    if (faults_->onOpen) faults_->onOpen(number);
    std::lock_guard lock(faults_->mutex);
    faults_->lost = std::move(lost);
  }
  void close() override {
    if (faults_->onClose) faults_->onClose();
    faults_->closes.fetch_add(1);
  }
  void registerMemory(const Memory&) override {
    if (faults_->onRegister) faults_->onRegister();
    faults_->registrations.fetch_add(1);
  }
  void unregisterMemory(const Memory&) override { faults_->registrations.fetch_sub(1); }
  /** Writes its mark into the memory of a get, late if the test says so. */
  int32_t run(PoolRequest& request) override {
    if (faults_->onRun) faults_->onRun(request.operation());
    for (uint32_t index = 0; index < request.count(); index++) {
      if (request.operation() == layout::OPERATION_GET) {
        for (const PoolSegment& segment : request.segments(index)) std::memset(segment.address(), 0x5A, segment.bytes);
      }
      request.setResult(index, 1);
    }
    return code::OK;
  }
  ControlReply control(const ControlRequest& request) override {
    if (faults_->onControl) faults_->onControl();
    return {.count = static_cast<int64_t>(request.key.size())};
  }
  EngineStatistics statistics() const override { return {}; }

 private:
  const std::shared_ptr<Faults> faults_;
};

}  // namespace support
