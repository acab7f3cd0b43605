// hasherRegister, hasherRelease, hashBlocks.
#include <memory>
#include <optional>

#include "addon/arguments.h"
#include "addon/memories.h"
#include "addon/subjects.h"
#include "core/block_hash.h"
#include "core/registry.h"

namespace mooncake_kv::addon {

namespace {

Registry<Hasher>& hashers() {
  static auto* registry = new Registry<Hasher>("hasherId");
  return *registry;
}

napi_value hasherRegister(const Arguments<1>& arguments) {
  const Options options(arguments.env, arguments[0]);
  const std::string name = options.string("algorithm");
  const std::optional<HashAlgorithm> algorithm = hashAlgorithm(name);
  if (!algorithm) {
    throw Error("UNSUPPORTED", "options.algorithm", name, "the addon does not compute it",
                "Use \"sha256\", \"sha256_cbor\", \"xxhash\" or \"xxhash_cbor\".");
  }
  const View noneHash = options.view("noneHash");
  const auto blockSize = static_cast<int32_t>(options.integer("blockSize", 1, Hasher::BLOCK_SIZE_MAX));
  const auto lookahead = options.has("lookaheadTokens") ? options.integer("lookaheadTokens", 0, Hasher::LOOKAHEAD_MAX) : 0;
  auto tokens = sharedMemories().require(options.id("tokensSharedId"));
  auto hashes = sharedMemories().require(options.id("hashesSharedId"));
  const std::span<const uint8_t> none(noneHash.data, noneHash.bytes);
  const Hasher::Options made = {*algorithm, blockSize, static_cast<int32_t>(lookahead)};
  return number(arguments.env, hashers().add(std::make_shared<Hasher>(made, none, std::move(tokens), std::move(hashes))));
}

napi_value hasherRelease(const Arguments<1>& arguments) {
  hashers().remove(arguments.int32(0, "hasherId"));
  return nullptr;
}

napi_value hashBlocks(const Arguments<6>& arguments) {
  const std::shared_ptr<Hasher> hasher = hashers().require(arguments.int32(0, "hasherId"));
  return number(arguments.env,
                hasher->hash(arguments.int32(1, "tokenPage"), arguments.int32(2, "hashPage"), arguments.int32(3, "extrasPage"),
                             arguments.int32(4, "fromBlock"), arguments.int32(5, "toBlock")));
}

}  // namespace

void defineHashing(Napi::Object exports) {
  define<1, hasherRegister>(exports, "hasherRegister");
  define<1, hasherRelease>(exports, "hasherRelease");
  define<6, hashBlocks>(exports, "hashBlocks");
}

}  // namespace mooncake_kv::addon
