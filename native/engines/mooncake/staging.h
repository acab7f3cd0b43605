// Buffers in which values of many small segments are gathered before they travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

/** At most BUFFERS_MAX buffers of one size, registered with the store, made when first needed and kept. Any thread. */
class Staging {
 public:
  /** As many as calls may be in the store, those that hang included. */
  static constexpr size_t BUFFERS_MAX = 32;

  /** A buffer for the time of one call. */
  class Lease {
   public:
    Lease() = default;
    Lease(Staging& owner, uint8_t* data) : owner_(&owner), data_(data) {}
    Lease(Lease&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}
    ~Lease() {
      if (owner_ != nullptr) owner_->giveBack(data_);
    }
    uint8_t* data() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }

   private:
    Staging* owner_ = nullptr;
    uint8_t* data_ = nullptr;
  };

  Staging(std::shared_ptr<Store> store, size_t bytes) : store_(std::move(store)), bytes_(bytes) {}
  ~Staging();

  size_t bytes() const { return bytes_; }
  /** False: all are in use, or the system or the store gives no more; values travel as they lie then. False after `stop`, too. */
  Lease take();
  /** Buffers that go back from now on are not given out again. */
  void stop();

 private:
  void giveBack(uint8_t* data);
  uint8_t* make();

  const std::shared_ptr<Store> store_;
  const size_t bytes_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::vector<uint8_t*> all_;
  std::vector<uint8_t*> free_;
};

}  // namespace mooncake_kv::mooncake
