// How values lie in a message between this process and the engine's: one list of fields serves both directions, so that they
// cannot drift apart. Both ends run on one machine and come out of one build, hence plain bytes in the machine's order.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mooncake_kv::child {

/** A message that is not what the other end should have sent: nothing that it sends can be trusted any more. */
class Malformed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/** First in every message; see Wire. */
using MessageLength = uint32_t;
inline constexpr size_t MESSAGE_BYTES_MAX = size_t{512} << 20;

/** Appends fields to a buffer of the caller's, which it empties first and which keeps its capacity. */
class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& bytes) : bytes_(bytes) { bytes_.assign(sizeof(MessageLength), 0); }

  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (one(fields), ...);
  }
  void raw(const void* data, size_t bytes) {
    const auto* first = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), first, first + bytes);
  }
  /** Fills the length in; the whole message. */
  std::span<const uint8_t> finish() {
    const auto length = static_cast<MessageLength>(bytes_.size() - sizeof(MessageLength));
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  template <typename Field>
  void one(const Field& field) {
    if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
      one(static_cast<uint32_t>(field.size()));
      for (const std::string& text : field) one(text);
    } else if constexpr (std::is_same_v<Field, std::string> || std::is_same_v<Field, std::vector<uint8_t>>) {
      one(static_cast<uint32_t>(field.size()));
      raw(field.data(), field.size());
    } else {
      static_assert(std::is_arithmetic_v<Field> || std::is_enum_v<Field>);
      raw(&field, sizeof field);
    }
  }

  std::vector<uint8_t>& bytes_;
};

/** Reads fields in the order in which they were written. Throws Malformed when they are not there. */
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (one(fields), ...);
  }
  template <typename Field>
  Field take() {
    Field field{};
    one(field);
    return field;
  }
  /** Valid as long as the message. */
  std::span<const uint8_t> raw(size_t bytes) {
    if (bytes > rest_.size()) throw Malformed("a message ends too early");
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  std::string_view text() {
    const auto bytes = raw(take<uint32_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  size_t left() const { return rest_.size(); }

 private:
  template <typename Field>
  void one(Field& field) {
    if constexpr (std::is_same_v<Field, std::vector<std::string>>) {
      field.clear();
      for (uint32_t left = take<uint32_t>(); left > 0; left--) field.emplace_back(text());
    } else if constexpr (std::is_same_v<Field, std::string>) {
      field = text();
    } else if constexpr (std::is_same_v<Field, std::vector<uint8_t>>) {
      const auto bytes = raw(take<uint32_t>());
      field.assign(bytes.begin(), bytes.end());
    } else if constexpr (std::is_same_v<Field, bool>) {
      field = raw(1)[0] != 0;
    } else {
      static_assert(std::is_arithmetic_v<Field> || std::is_enum_v<Field>);
      std::memcpy(&field, raw(sizeof field).data(), sizeof field);
    }
  }

  std::span<const uint8_t> rest_;
};

}  // namespace mooncake_kv::child
