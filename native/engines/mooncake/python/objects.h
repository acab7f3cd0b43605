// Python objects in C++: the interpreter's lock, references, lists of keys and of numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/mooncake/python/api.h"

namespace mooncake_kv::python {

/** Holds the interpreter's lock for the length of a scope. Any thread; scopes may nest. Only after `startPython`. */
class Lock {
 public:
  Lock() : state_(api().PyGILState_Ensure()) {}
  ~Lock() { api().PyGILState_Release(state_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const int state_;
};

/**
 * Lets this thread keep what the interpreter knows of it from one lock to the next: to make that anew takes longer than the lock.
 * It is never given back, so this is for threads that stay: 0.4 KiB remain of each that ends, 4.4 if it ran code in Python. To give
 * it back needs the interpreter's lock, which a store that closes may hold for 10 s, and who ends I/O threads waits for them. A later
 * thread with the same id gets a state of its own. Any number of times.
 */
void keepThreadState();

/** What Python raised, as text. */
class Raised : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** Throws Raised with the error that the interpreter has set, and clears it. Under the lock. */
[[noreturn]] void raise();

/** An owned reference. Everything but moving needs the lock; a reference that may end without it belongs into `Held`. */
class Ref {
 public:
  Ref() = default;
  /** Takes over a new reference; throws Raised for null, which is how the interpreter says that it raised. */
  static Ref take(Object* object) {
    if (object == nullptr) raise();
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) api().Py_DecRef(object_);
  }

  Object* get() const { return object_; }
  /** For functions that steal a reference. */
  Object* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  Object* object_ = nullptr;
};

/** A reference that takes the lock itself when it ends. */
class Held {
 public:
  Held() = default;
  Held(Held&&) noexcept = default;
  Held& operator=(Ref ref) {
    ref_ = std::move(ref);
    return *this;
  }
  ~Held() {
    if (!ref_) return;
    const Lock lock;
    const Ref ends = std::move(ref_);
  }
  Object* get() const { return ref_.get(); }
  explicit operator bool() const { return static_cast<bool>(ref_); }

 private:
  Ref ref_;
};

// All of these need the lock and throw Raised.
Ref importModule(const char* name);
Ref attribute(Object* object, const char* name);
Ref text(std::string_view utf8);
Ref number(uint64_t value);
Ref bytes(const void* data, size_t count);
std::string asText(Object* object);
int64_t asNumber(Object* object);
/** For addresses: the whole range of 64 bits. */
uint64_t asUnsigned(Object* object);
std::vector<uint8_t> asBytes(Object* object);

/** A list of known length whose items are set one after the other. */
class ListMaker {
 public:
  explicit ListMaker(size_t count) : list_(Ref::take(api().PyList_New(static_cast<intptr_t>(count)))) {}
  void add(Ref item) { api().PyList_SetItem(list_.get(), next_++, item.release()); }
  Ref take() { return std::move(list_); }

 private:
  Ref list_;
  intptr_t next_ = 0;
};

/** function(*positional, **named); `named` may be empty. */
Ref call(Object* function, std::initializer_list<Object*> positional, Object* named = nullptr);

/** The numbers of a list of ints; throws Raised when it has another length. */
void readNumbers(Object* list, size_t count, std::vector<int32_t>& into);

}  // namespace mooncake_kv::python
