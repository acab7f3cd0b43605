// Process-wide ids for objects that several threads refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace mooncake_kv {

/**
 * Ids count up and are never used twice, so a late user of a removed object finds nothing instead of something else.
 * Any thread. The registry holds its objects; whoever found one holds it too for as long as it needs.
 */
template <typename T>
class Registry {
 public:
  explicit Registry(std::string field) : field_(std::move(field)) {}

  int32_t add(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    const int32_t id = ++last_;
    objects_.emplace(id, std::move(object));
    return id;
  }

  std::shared_ptr<T> find(int32_t id) const {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(id);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<T> require(int32_t id) const {
    if (auto object = find(id)) return object;
    if (issued(id)) throw Error("CLOSED", field_, std::to_string(id), "this id was released", "Use it before its release only.");
    throw invalidValue(field_, id, "this id was never given out", "Pass the number that its registration returned.");
  }

  /** Takes the object out. Null when it is out already: releasing twice is harmless. Throws for an id never given out. */
  std::shared_ptr<T> remove(int32_t id) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(id);
    if (found == objects_.end()) {
      if (id >= 1 && id <= last_) return nullptr;
      throw invalidValue(field_, id, "this id was never given out", "Pass the number that its registration returned.");
    }
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  bool issued(int32_t id) const {
    std::lock_guard lock(mutex_);
    return id >= 1 && id <= last_;
  }

  template <typename Predicate>
  void removeIf(Predicate&& predicate) {
    std::lock_guard lock(mutex_);
    std::erase_if(objects_, [&](const auto& item) { return predicate(*item.second); });
  }

 private:
  const std::string field_;
  mutable std::mutex mutex_;
  int32_t last_ = 0;
  std::unordered_map<int32_t, std::shared_ptr<T>> objects_;
};

}  // namespace mooncake_kv
