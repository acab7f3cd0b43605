#include "core/key_space.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/layout.h"
#include "core/pages.h"

namespace mooncake_kv {

namespace {

constexpr size_t DIGEST_BYTES_MAX = 32;
/** Two characters for each byte. */
constexpr std::array<char, 512> HEX_PAIRS = [] {
  constexpr char DIGITS[] = "0123456789abcdef";
  std::array<char, 512> pairs{};
  for (size_t byte = 0; byte < 256; byte++) {
    pairs[2 * byte] = DIGITS[byte >> 4];
    pairs[2 * byte + 1] = DIGITS[byte & 15];
  }
  return pairs;
}();

std::string place(size_t group, size_t segment, const char* field) {
  return "groups[" + std::to_string(group) + "][" + std::to_string(segment) + "]." + field;
}

void checkSegment(const SegmentRule& rule, size_t group, size_t segment, int32_t blockCount) {
  const auto text = [](uint64_t number) { return std::to_string(number); };
  if (rule.bytes == 0) {
    throw invalidValue(place(group, segment, "bytes"), "0", "a segment has at least one byte", "Leave empty segments out.");
  }
  if (rule.strideBytes < rule.bytes && blockCount > 1) {
    throw invalidValue(place(group, segment, "strideBytes"), text(rule.strideBytes), "blocks would overlap",
                       "Set it to at least the segment's " + text(rule.bytes) + " bytes.");
  }
  const uint64_t room = rule.region->bytes();
  const uint64_t last = static_cast<uint64_t>(blockCount) - 1;
  const bool fits = rule.offset <= room && rule.bytes <= room - rule.offset &&
                    (last == 0 || rule.strideBytes <= (room - rule.offset - rule.bytes) / last);
  if (!fits) {
    throw invalidValue(place(group, segment, "offset"), text(rule.offset),
                       "the last block's segment ends outside its region of " + text(room) + " bytes",
                       "Make the region larger, or lower offset, strideBytes or blockCount.");
  }
}

}  // namespace

KeySpace::KeySpace(Options options)
    : hashes_(std::move(options.hashes)),
      hashBytes_(options.hashBytes),
      hashRows_(mooncake_kv::hashRows(*hashes_)),
      blockCount_(options.blockCount),
      prefixes_(std::move(options.prefixes)),
      groups_(std::move(options.groups)) {
  if (hashBytes_ != 16 && hashBytes_ != 32) {
    throw invalidValue("hashBytes", hashBytes_, "a digest has 32 bytes, or 16 for the xxhash algorithms", "Pass 32 or 16.");
  }
  if (blockCount_ < 1 && !groups_.empty()) {
    throw invalidValue("blockCount", blockCount_, "there must be at least one block", "Pass the number of KV blocks.");
  }
  if (groups_.size() > static_cast<size_t>(layout::GROUPS_MAX)) {
    throw invalidValue("groups", static_cast<int64_t>(groups_.size()), "there are at most 16 groups", "Merge KV-cache groups.");
  }
  memories_.push_back(hashes_);
  for (std::string& prefix : prefixes_) prefix += '@';
  for (size_t group = 0; group < groups_.size(); group++) {
    uint64_t bytes = 0;
    for (size_t segment = 0; segment < groups_[group].size(); segment++) {
      const SegmentRule& rule = groups_[group][segment];
      checkSegment(rule, group, segment, blockCount_);
      bytes += rule.bytes;
      borrowsBlocks_ |= rule.region->kind() == Memory::Kind::host;
      if (std::find(memories_.begin() + 1, memories_.end(), rule.region) == memories_.end()) memories_.push_back(rule.region);
    }
    const std::string field = "groups[" + std::to_string(group) + "]";
    if (bytes == 0) throw invalidValue(field, "[]", "a group needs at least one segment", "Leave empty groups out.");
    if (bytes > INT32_MAX) {
      throw invalidValue(field, static_cast<int64_t>(bytes), "a value has at most 2147483647 bytes", "Use smaller blocks.");
    }
    valueBytes_.push_back(bytes);
  }
}

bool KeySpace::enter() const {
  for (size_t entered = 0; entered < memories_.size(); entered++) {
    if (memories_[entered]->enter()) continue;
    while (entered > 0) memories_[--entered]->leave();
    return false;
  }
  return true;
}

void KeySpace::leave() const {
  for (const auto& memory : memories_) memory->leave();
}

void KeySpace::writeText(int32_t prefix, int32_t hashRow, char* to) const {
  const std::string& head = prefixes_[static_cast<size_t>(prefix)];
  std::memcpy(to, head.data(), head.size());
  to += head.size();
  // A copy, which what is written through `to` cannot change.
  uint8_t digest[DIGEST_BYTES_MAX];
  const size_t bytes = static_cast<size_t>(hashBytes_);
  std::memcpy(digest, hashAt(*hashes_, hashRow), bytes);
  for (size_t i = 0; i < bytes; i++) std::memcpy(to + 2 * i, &HEX_PAIRS[2 * size_t{digest[i]}], 2);
}

bool KeySpace::key(int32_t prefix, int32_t hashRow, std::string& text) const {
  if (!hasKey(prefix, hashRow)) return false;
  text.resize(textBytes(prefix));
  writeText(prefix, hashRow, text.data());
  return true;
}

bool KeySpace::addKey(int32_t prefix, int32_t hashRow, PoolRequest& request) const {
  if (!hasKey(prefix, hashRow)) return false;
  writeText(prefix, hashRow, request.addKey(textBytes(prefix)));
  return true;
}

void KeySpace::addSegments(int32_t group, int32_t block, PoolRequest& request) const {
  for (const SegmentRule& rule : segments(group)) {
    request.addSegment(*rule.region, rule.offset + static_cast<uint64_t>(block) * rule.strideBytes, rule.bytes);
  }
}

Registry<KeySpace>& keySpaces() {
  // Never destroyed: I/O threads may still run while the process exits.
  static auto* registry = new Registry<KeySpace>("keySpaceId");
  return *registry;
}

}  // namespace mooncake_kv
