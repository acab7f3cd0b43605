#include "core/key_names.h"

#include <algorithm>
#include <array>

namespace mooncake_kv {

namespace {

/** What follows a model's name and an `@` in the keys of blocks. */
constexpr std::array<std::string_view, 3> BLOCKS{"tp_rank:", "store_tp:", "store_pp:"};
/** What members publish for each other, at the end of a key. */
constexpr std::string_view PUBLISHED = "mooncake-kv-";

bool isOfBlocks(std::string_view text) {
  return std::any_of(BLOCKS.begin(), BLOCKS.end(), [&](std::string_view start) { return text.starts_with(start); });
}

}  // namespace

bool hasCachePrefix(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix) || !key.substr(prefix.size()).starts_with('@')) return false;
  const std::string_view rest = key.substr(prefix.size() + 1);
  const size_t modelEnd = rest.find('@');
  if (modelEnd == 0 || modelEnd == std::string_view::npos || isOfBlocks(rest)) return false;
  const std::string_view behindModel = rest.substr(modelEnd + 1);
  return isOfBlocks(behindModel) || (behindModel.starts_with(PUBLISHED) && behindModel.find('@') == std::string_view::npos);
}

std::string cachePrefixPattern(std::string_view prefix) {
  const std::string blocks = "tp_rank:|store_tp:|store_pp:";
  return startPattern(std::string(prefix) + "@") + "(?!" + blocks + ")[^@]+@(" + blocks + "|" + std::string(PUBLISHED) + "[^@]*$)";
}

std::string startPattern(std::string_view text) {
  std::string pattern = "^";
  for (const char letter : text) {
    if (std::string_view("^$\\.*+?()[]{}|").find(letter) != std::string_view::npos) pattern += '\\';
    pattern += letter;
  }
  return pattern;
}

std::string withoutChecksums(const std::string& pattern) { return "^(?!.*" + std::string(CHECKSUM_MARK) + ")" + pattern.substr(1); }

}  // namespace mooncake_kv
