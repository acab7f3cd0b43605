// What the text of a pool key says about the deployment that it is of.
#pragma once

#include <string>
#include <string_view>

namespace mooncake_kv {

/**
 * Whether `key` is of a deployment with this cache_prefix: `prefix@model`, then ranks, the store's shape, or what members publish
 * about themselves. A deployment without a prefix whose model has the prefix for a name is another one, and so is one whose prefix
 * goes on behind an `@`; so a model's name with an `@` is not recognized here. Twin of src/keys/key-names.ts.
 */
bool hasCachePrefix(std::string_view key, std::string_view prefix);

/** Matches the same keys, in the master's regular expressions (ECMAScript). */
std::string cachePrefixPattern(std::string_view prefix);

/** A pattern that matches keys that begin with `text`, to the letter. */
std::string startPattern(std::string_view text);

}  // namespace mooncake_kv
