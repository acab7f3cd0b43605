// Block hashes as vLLM computes them with `sha256_cbor`: SHA-256 of canonical CBOR of [parent hash, [token ids], extra or null].
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/memory.h"

namespace mooncake_kv {

/** Appends CBOR of [parent, [tokens..., to come]]: the head of the message, up to the first token. */
uint8_t* encodeBlockHead(uint8_t* to, std::span<const uint8_t> parent, uint32_t tokens);
/** Appends token ids, shortest form. At most 5 bytes each. */
uint8_t* encodeTokens(uint8_t* to, const int32_t* tokens, int32_t count);

/** Hashes rows of tokens that lie in page chains. Any thread; calls for different chains may run at the same time. */
class Hasher {
 public:
  static constexpr int32_t BLOCK_SIZE_MAX = 65535;
  /** Bound of one block's encoded extra element. */
  static constexpr int32_t EXTRA_BYTES_MAX = 1 << 20;

  Hasher(int32_t blockSize, std::span<const uint8_t> noneHash, std::shared_ptr<Memory> tokens, std::shared_ptr<Memory> hashes);

  /**
   * Hashes blocks [fromBlock, toBlock); see hashBlocks in src/native/binding.ts. Returns how many. Throws Error when a chain is
   * shorter than the blocks need: digests of the blocks before are then written.
   */
  int32_t hash(int32_t tokenPage, int32_t hashPage, int32_t extrasPage, int32_t fromBlock, int32_t toBlock) const;

 private:
  const int32_t blockSize_;
  std::vector<uint8_t> noneHash_;
  const std::shared_ptr<Memory> tokens_;
  const std::shared_ptr<Memory> hashes_;
};

}  // namespace mooncake_kv
