// A socket on which whole messages go to and fro, with file descriptors beside them.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mooncake_kv::child {

/** Owns a file descriptor. */
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();
  int get() const { return number_; }

 private:
  int number_;
};

/** Two connected stream sockets, closed on exec. Throws Error. */
std::pair<Descriptor, Descriptor> socketPair();

enum class Outcome {
  done,
  /** The other end has closed it, or will never understand anything again. */
  closed,
  /** Nothing moved for the time limit. */
  timedOut,
};

/** One thread sends and one receives at a time. Blocks; never raises SIGPIPE. */
class Wire {
 public:
  /** Linux passes at most 253 at a time. */
  static constexpr size_t DESCRIPTORS_MAX = 253;

  explicit Wire(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  /** How long a send or receive may stand still; 0: forever. */
  void limit(std::chrono::milliseconds timeout);
  /** `message`: what Writer::finish returned. */
  Outcome send(std::span<const uint8_t> message, std::span<const int> descriptors = {});
  /** `payload` is valid until the next receive. Descriptors that nobody asks for are closed. */
  Outcome receive(std::span<const uint8_t>& payload, std::vector<Descriptor>* descriptors = nullptr);
  /** More has come than was given out. */
  bool isHolding() const { return taken_ < filled_; }

 private:
  Outcome readSome(std::vector<Descriptor>* descriptors);

  Descriptor socket_;
  std::vector<uint8_t> buffer_;
  /** Bytes [taken_, filled_) of the buffer have come and were not given out. */
  size_t taken_ = 0;
  size_t filled_ = 0;
};

}  // namespace mooncake_kv::child
