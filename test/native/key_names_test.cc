// A cache_prefix names its own deployments' keys, and no others': by the predicate and by the master's pattern alike.
#include "core/key_names.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace mooncake_kv {
namespace {

const std::string RANKS = "tp_rank:0@pcp0@dcp0@pp_rank:0@group:0@00ff";

void expectPrefix(const std::string& key, const std::string& prefix, bool expected) {
  EXPECT_EQ(hasCachePrefix(key, prefix), expected) << key << " of " << prefix;
  EXPECT_EQ(std::regex_search(key, std::regex(cachePrefixPattern(prefix))), expected) << key << " of " << prefix;
}

TEST(KeyNames, AModelOfThatNameIsNoPrefix) {
  expectPrefix("X@model@" + RANKS, "X", true);
  expectPrefix("X@model@" + RANKS + "@sidecar", "X", true);
  expectPrefix("X@model@store_tp:2@store_pp:1@store_format:tp_shared_lbhnc@" + RANKS, "X", true);
  expectPrefix("X@model@store_pp:1@store_format:tp_shared_mqa@" + RANKS, "X", true);
  expectPrefix("X@model@mooncake-kv-identity", "X", true);
  expectPrefix("X@model@mooncake-kv-lease-probe", "X", true);
  // A model whose name begins as other parts of keys do.
  expectPrefix("X@store_of_llamas@" + RANKS, "X", true);
  expectPrefix("X@mooncake-kv-7b@" + RANKS, "X", true);

  expectPrefix("X@" + RANKS, "X", false);
  expectPrefix("X@store_tp:2@store_pp:1@store_format:tp_shared_lbhnc@" + RANKS, "X", false);
  expectPrefix("X@store_pp:1@store_format:tp_shared_mqa@" + RANKS, "X", false);
  expectPrefix("X@store_pp:2@store_format:rank_local_tp4_layout_LBNHC@" + RANKS, "X", false);
  expectPrefix("X@mooncake-kv-identity", "X", false);
}

TEST(KeyNames, ChecksumsMayBeLeftOut) {
  const std::string value = "X@model@" + RANKS, mark = value + "#xxh3", checksum = mark + "=00ff";
  for (const std::string& pattern : {cachePrefixPattern("X"), startPattern("X@m"), startPattern("")}) {
    for (const std::string& key : {value, mark, checksum}) {
      EXPECT_TRUE(std::regex_search(key, std::regex(pattern)));
      EXPECT_EQ(std::regex_search(key, std::regex(withoutChecksums(pattern))), key == value) << key;
    }
    EXPECT_FALSE(std::regex_search("Y@" + RANKS, std::regex(withoutChecksums(startPattern("X@m")))));
  }
}

TEST(KeyNames, PrefixesOfPrefixesAreOthers) {
  expectPrefix("X2@model@" + RANKS, "X", false);
  expectPrefix("aX@model@" + RANKS, "X", false);
  expectPrefix("X@Y@model@" + RANKS, "X", false);
  expectPrefix("X@Y@model@mooncake-kv-identity", "X", false);
  expectPrefix("X@Y@mooncake-kv-7b@" + RANKS, "X", false);
  expectPrefix("X@Y@model@" + RANKS, "X@Y", true);
  expectPrefix("other", "X", false);
  expectPrefix("X", "X", false);
  expectPrefix("X@", "X", false);
  expectPrefix("X@@" + RANKS, "X", false);
}

TEST(KeyNames, LettersThatMeanSomethingInAPatternMeanThemselves) {
  for (const std::string prefix : {"a.b", "a+b", "(a|b)", "a*", "[ab]", "a{2}", "^a$", "a\\d", "a?", "a b", "a-b/c:d", "\xc3\xa4"}) {
    expectPrefix(prefix + "@model@" + RANKS, prefix, true);
    expectPrefix(prefix + "@" + RANKS, prefix, false);
  }
  expectPrefix("aXb@model@" + RANKS, "a.b", false);
  expectPrefix("aab@model@" + RANKS, "a+b", false);
  expectPrefix("a@model@" + RANKS, "(a|b)", false);
  expectPrefix("a1@model@" + RANKS, "a\\d", false);
}

}  // namespace
}  // namespace mooncake_kv
