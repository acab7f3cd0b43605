// What the text of a pool key says about the deployment that it is of.
#pragma once

#include <string>
#include <string_view>

namespace mooncake_kv {

/** In the keys of what members know about a value, behind the value's own key. */
inline constexpr std::string_view CHECKSUM_MARK = "#xxh3";

/**
 * Whether `key` is of a deployment with this cache_prefix: `prefix@model`, then ranks, the store's shape, or what members publish
 * about themselves. A deployment without a prefix whose model has the prefix for a name is another one, and so is one whose prefix
 * goes on behind an `@`; so a model's name with an `@` is not recognized here. Twin of src/keys/key-names.ts.
 */
bool hasCachePrefix(std::string_view key, std::string_view prefix);

/** Matches the same keys, in the master's regular expressions (ECMAScript). */
std::string cachePrefixPattern(std::string_view prefix);

/** A pattern that matches keys that begin with `text`, to the letter; empty: all keys. */
std::string startPattern(std::string_view text);

/** The same pattern, without the keys of checksums. `pattern`: of the two above. */
std::string withoutChecksums(const std::string& pattern);

}  // namespace mooncake_kv
