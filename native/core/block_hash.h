// Block hashes as vLLM computes them: H((parent hash, token ids, extra element)), chained over the blocks of a request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/hash_algorithm.h"
#include "core/memory.h"

namespace mooncake_kv {

/** Hashes rows of tokens that lie in page chains. Any thread; calls for different chains may run at the same time. */
class Hasher {
 public:
  static constexpr int32_t BLOCK_SIZE_MAX = 65535;
  static constexpr int32_t LOOKAHEAD_MAX = 1024;
  /** Bound of one block's encoded extra element. */
  static constexpr int32_t EXTRA_BYTES_MAX = 1 << 20;
  static constexpr size_t RANDOM_NONE_HASH_BYTES = 32;

  struct Options {
    HashAlgorithm algorithm = HashAlgorithm::SHA256_CBOR;
    int32_t blockSize = 0;
    /** Tokens after a block that its hash covers too. */
    int32_t lookaheadTokens = 0;
  };

  Hasher(Options options, std::span<const uint8_t> noneHash, std::shared_ptr<Memory> tokens, std::shared_ptr<Memory> hashes);

  /**
   * Hashes blocks [fromBlock, toBlock); see hashBlocks in src/native/binding.ts. Returns how many. Throws Error when a chain is
   * shorter than the blocks and their look-ahead tokens need: digests of the blocks before are then written.
   */
  int32_t hash(int32_t tokenPage, int32_t hashPage, int32_t extrasPage, int32_t fromBlock, int32_t toBlock) const;

 private:
  struct Range {
    int32_t tokenPage, hashPage, extrasPage, fromBlock, toBlock;
  };
  template <class Encoder, class Digest>
  int32_t hashRange(const Range& range) const;

  const Options options_;
  const std::vector<uint8_t> noneHash_;
  const std::shared_ptr<Memory> tokens_;
  const std::shared_ptr<Memory> hashes_;
};

}  // namespace mooncake_kv
