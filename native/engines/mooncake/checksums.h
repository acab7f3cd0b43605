// Checksums of values, kept under keys beside the values' own so that those and their bytes stay vLLM's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/pool_request.h"
#include "core/xxh3.h"
#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

using Digest = std::array<uint8_t, XXH3_BYTES>;

/** A value with the keys of its checksum: what a put in steps begins, and ends or takes back. */
struct CheckedPut {
  uint32_t index;
  /** The value's own comes first. */
  Names names;
  /** The last of them is the mark, which is still to be written. */
  bool hasMark = false;
};

/**
 * A put that has stored a value adds two keys. One has the checksum in its name, so that a get need only ask whether it exists: that
 * costs no transfer. The mark has it as its value, for when the other key was evicted alone. Several members may have stored
 * different good bytes under one key, one after the other: each has left a name, and a value that fits any of them is good.
 */
std::string checksumMarkOf(std::string_view key);
/** `digest`: XXH3-128 over all bytes of the value in order. */
std::string checksumKeyOf(std::string_view key, const uint8_t digest[16]);

/** Of a value where its segments lie; the same as over its bytes in one piece. */
void digestValue(const PoolRequest& request, uint32_t index, uint8_t digest[16]);

}  // namespace mooncake_kv::mooncake
