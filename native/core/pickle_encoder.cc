#include "core/pickle_encoder.h"

#include "core/error.h"

namespace mooncake_kv {

namespace {

Error notPickled(const char* problem) {
  return invalidValue("extrasPage", "", problem, "Make the stream with encodeExtraWords for this algorithm.");
}

using Pickle = PickleEncoder;

constexpr size_t FRAME_HEAD_BYTES = 9;
/** A shorter rest goes without a frame. */
constexpr size_t FRAME_BYTES_MIN = 4;
constexpr size_t CLOSED = SIZE_MAX;

/** The frames of a message, which open with the first byte that is written into them. */
class Frames {
 public:
  explicit Frames(std::vector<uint8_t>& bytes) : bytes_(bytes) { bytes_.assign({0x80, 5}); }

  void write(std::span<const uint8_t> part) {
    if (start_ == CLOSED) {
      start_ = bytes_.size();
      bytes_.resize(start_ + FRAME_HEAD_BYTES);
    }
    bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  /** Payloads as large as a frame stand outside of frames. */
  void writeOutside(std::span<const uint8_t> part) {
    close();
    bytes_.insert(bytes_.end(), part.begin(), part.end());
  }
  /** An object begins here. */
  void boundary() {
    if (start_ != CLOSED && size() >= Pickle::FRAME_BYTES) close();
  }
  void close() {
    if (start_ == CLOSED) return;
    const uint64_t bytes = size();
    const auto head = bytes_.begin() + static_cast<ptrdiff_t>(start_);
    if (bytes >= FRAME_BYTES_MIN) {
      *head = Pickle::FRAME;
      std::memcpy(&*head + 1, &bytes, 8);
    } else {
      bytes_.erase(head, head + FRAME_HEAD_BYTES);
    }
    start_ = CLOSED;
  }

 private:
  size_t size() const { return bytes_.size() - start_ - FRAME_HEAD_BYTES; }

  std::vector<uint8_t>& bytes_;
  size_t start_ = CLOSED;
};

struct Operation {
  size_t headBytes;
  size_t payloadBytes;
  bool beginsObject;
};

Operation operationAt(std::span<const uint8_t> rest) {
  const auto length32 = [&] {
    uint32_t length = 0;
    if (rest.size() >= 5) std::memcpy(&length, rest.data() + 1, 4);
    return size_t{length};
  };
  const auto length8 = [&] { return rest.size() >= 2 ? size_t{rest[1]} : 0; };
  switch (rest[0]) {
    case Pickle::NONE:
    case Pickle::MARK:
    case Pickle::EMPTY_TUPLE: return {1, 0, true};
    case Pickle::TUPLE:
    case Pickle::TUPLE1:
    case Pickle::TUPLE2:
    case Pickle::TUPLE3:
    case Pickle::MEMOIZE:
    case Pickle::STOP: return {1, 0, false};
    case Pickle::BININT1:
    case Pickle::BINGET: return {2, 0, true};
    case Pickle::BININT2: return {3, 0, true};
    case Pickle::BININT:
    case Pickle::LONG_BINGET: return {5, 0, true};
    case Pickle::LONG1:
    case Pickle::SHORT_BINBYTES:
    case Pickle::SHORT_BINUNICODE: return {2, length8(), true};
    case Pickle::BINBYTES:
    case Pickle::BINUNICODE: return {5, length32(), true};
    default: throw notPickled("an extra element holds an opcode that no pickler writes for a block hash");
  }
}

}  // namespace

std::span<uint8_t> PickleEncoder::splitFrames(std::span<const uint8_t> content, std::vector<uint8_t>& frames, size_t room) {
  Frames out(frames);
  for (size_t at = 0; at < content.size();) {
    const Operation operation = operationAt(content.subspan(at));
    const size_t bytes = operation.headBytes + operation.payloadBytes;
    if (bytes > content.size() - at) throw notPickled("an extra element ends inside an opcode");
    if (operation.beginsObject) out.boundary();
    const std::span<const uint8_t> part = content.subspan(at, bytes);
    if (operation.payloadBytes >= FRAME_BYTES) out.writeOutside(part);
    else out.write(part);
    at += bytes;
  }
  out.close();
  const size_t bytes = frames.size();
  frames.resize(bytes + room);
  return {frames.data(), bytes};
}

}  // namespace mooncake_kv
