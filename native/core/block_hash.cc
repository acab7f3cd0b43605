#include "core/block_hash.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cbor_encoder.h"
#include "core/error.h"
#include "core/pages.h"
#include "core/pickle_encoder.h"

namespace mooncake_kv {

namespace {

Error chainEnds(const char* field, int32_t block) {
  return invalidValue(field, block, "the page chain ends before this block", "Allocate pages for the whole row first.");
}

/** The extra elements of one request, block by block. */
class ExtrasReader {
 public:
  ExtrasReader(const Memory& arena, int32_t page) : chain_(tokenChain(arena)), present_(page != layout::NONE) {
    if (present_ && !chain_.seek(page, 0)) throw chainEnds("extrasPage", 0);
  }
  bool present() const { return present_; }

  int32_t readBytes(int32_t block) {
    int32_t* word = nullptr;
    if (chain_.run(word) == 0) throw chainEnds("extrasPage", block);
    chain_.take(1);
    if (*word < 0 || *word > Hasher::EXTRA_BYTES_MAX) {
      throw invalidValue("extrasPage", *word, "this byte length of an extra element is out of range", "Rewrite the extra-key stream.");
    }
    return *word;
  }
  void skip(int32_t bytes, int32_t block) {
    if (!chain_.skip((bytes + 3) / 4)) throw chainEnds("extrasPage", block);
  }
  uint8_t* copy(uint8_t* to, int32_t bytes, int32_t block) {
    while (bytes > 0) {
      int32_t* words = nullptr;
      const int32_t run = chain_.run(words);
      if (run == 0) throw chainEnds("extrasPage", block);
      const int32_t part = std::min(bytes, run * 4);
      std::memcpy(to, words, static_cast<size_t>(part));
      chain_.take((part + 3) / 4);
      to += part;
      bytes -= part;
    }
    return to;
  }

 private:
  ChainCursor chain_;
  const bool present_;
};

/** One request's blocks: from the token row through the message to the digest row. */
template <class Encoder, class Digest>
class Row {
 public:
  Row(const Hasher::Options& options, ChainCursor tokens, ChainCursor hashes, ExtrasReader& extras)
      : options_(options), tokens_(tokens), hashes_(hashes), extras_(extras) {}

  /** Hashes `block`, the next one of the row, after `parent`; returns its digest, in the row. */
  std::span<const uint8_t> hash(int32_t block, std::span<const uint8_t> parent) {
    const int32_t extraBytes = extras_.present() ? extras_.readBytes(block) : 0;
    uint8_t* const from = messageWith(static_cast<size_t>(extraBytes) + parent.size());
    const auto count = static_cast<uint32_t>(options_.blockSize);
    const auto lookahead = static_cast<uint32_t>(options_.lookaheadTokens);
    uint8_t* to = Encoder::begin(from, parent, count);
    to = Encoder::endTokens(encodeTokens(to, tokens_, options_.blockSize, block), count);
    if (lookahead > 0) to = Encoder::beginLookahead(to, lookahead);
    to = extraBytes == 0 ? Encoder::none(to) : extras_.copy(to, extraBytes, block);
    if (lookahead > 0) {
      ChainCursor ahead = tokens_;
      to = Encoder::endLookahead(encodeTokens(to, ahead, options_.lookaheadTokens, block), lookahead);
    }
    static thread_local std::vector<uint8_t> frames;
    const std::span<uint8_t> message = Encoder::finish(from, to, frames, Digest::ROOM);
    int32_t* digest = nullptr;
    if (hashes_.run(digest) == 0) throw chainEnds("hashPage", block);
    hashes_.take(1);
    uint8_t* const out = reinterpret_cast<uint8_t*>(digest);
    digest_(message.data(), message.size(), out);
    return {out, Digest::BYTES};
  }

 private:
  static uint8_t* encodeTokens(uint8_t* to, ChainCursor& row, int32_t count, int32_t block) {
    for (int32_t left = count; left > 0;) {
      int32_t* words = nullptr;
      const int32_t part = std::min(left, row.run(words));
      if (part == 0) throw chainEnds("tokenPage", block);
      to = Encoder::tokens(to, words, part);
      row.take(part);
      left -= part;
    }
    return to;
  }

  /** Room for a whole message, kept from call to call. */
  uint8_t* messageWith(size_t otherBytes) {
    static thread_local std::vector<uint8_t> message;
    const size_t tokens = static_cast<size_t>(options_.blockSize) + static_cast<size_t>(options_.lookaheadTokens);
    const size_t bytes = Encoder::OTHER_BYTES_MAX + Encoder::TOKEN_BYTES_MAX * tokens + otherBytes + Digest::ROOM;
    if (message.size() < bytes) message.resize(bytes);
    return message.data();
  }

  const Hasher::Options& options_;
  ChainCursor tokens_;
  ChainCursor hashes_;
  ExtrasReader& extras_;
  const Digest digest_;
};

}  // namespace

Hasher::Hasher(Options options, std::span<const uint8_t> noneHash, std::shared_ptr<Memory> tokens, std::shared_ptr<Memory> hashes)
    : options_(options), noneHash_(noneHash.begin(), noneHash.end()), tokens_(std::move(tokens)), hashes_(std::move(hashes)) {
  if (options.blockSize < 1 || options.blockSize > BLOCK_SIZE_MAX) {
    throw invalidValue("blockSize", options.blockSize, "a block holds 1 to 65535 tokens", "Set block_size to the model's block size.");
  }
  if (options.lookaheadTokens < 0 || options.lookaheadTokens > LOOKAHEAD_MAX) {
    throw invalidValue("lookaheadTokens", options.lookaheadTokens, "a hash covers 0 to 1024 tokens after its block",
                       "Pass the drafter's number of look-ahead tokens.");
  }
  // Without a seed vLLM's xxhash variants draw 32 bytes, more than their digests have.
  const bool drawn = digestBytes(options.algorithm) == XXH3_BYTES && noneHash.size() == RANDOM_NONE_HASH_BYTES;
  if (noneHash.size() != digestBytes(options.algorithm) && !drawn) {
    throw invalidValue("noneHash", static_cast<int64_t>(noneHash.size()), "it has not as many bytes as a digest of this algorithm",
                       "Make it with noneHash() for the same algorithm.");
  }
}

int32_t Hasher::hash(int32_t tokenPage, int32_t hashPage, int32_t extrasPage, int32_t fromBlock, int32_t toBlock) const {
  const Range range = {tokenPage, hashPage, extrasPage, fromBlock, toBlock};
  switch (options_.algorithm) {
    case HashAlgorithm::SHA256: return hashRange<PickleEncoder, Sha256Digest>(range);
    case HashAlgorithm::SHA256_CBOR: return hashRange<CborEncoder, Sha256Digest>(range);
    case HashAlgorithm::XXHASH: return hashRange<PickleEncoder, XxhashDigest>(range);
    case HashAlgorithm::XXHASH_CBOR: return hashRange<CborEncoder, XxhashDigest>(range);
  }
  return 0;
}

template <class Encoder, class Digest>
int32_t Hasher::hashRange(const Range& range) const {
  const auto [tokenPage, hashPage, extrasPage, fromBlock, toBlock] = range;
  if (fromBlock < 0 || toBlock < fromBlock) {
    throw invalidValue("toBlock", toBlock, "the blocks must be a range from 0 up", "Pass 0 <= fromBlock <= toBlock.");
  }
  if (fromBlock == toBlock) return 0;
  const Entered tokensEntered(*tokens_);
  const Entered hashesEntered(*hashes_);
  if (!tokensEntered || !hashesEntered) {
    throw Error("CLOSED", "hasherId", "", "the thread that registered the arenas has ended",
                "Register them on a thread that outlives the workers.");
  }

  ChainCursor tokens = tokenChain(*tokens_);
  if (!tokens.seek(tokenPage, int64_t{fromBlock} * options_.blockSize)) throw chainEnds("tokenPage", fromBlock);
  ChainCursor hashes = hashChain(*hashes_);
  std::span<const uint8_t> parent = noneHash_;
  if (fromBlock == 0) {
    if (!hashes.seek(hashPage, 0)) throw chainEnds("hashPage", 0);
  } else {
    int32_t* digest = nullptr;
    if (!hashes.seek(hashPage, fromBlock - 1) || hashes.run(digest) == 0) throw chainEnds("hashPage", fromBlock - 1);
    hashes.take(1);
    parent = {reinterpret_cast<const uint8_t*>(digest), Digest::BYTES};
  }
  ExtrasReader extras(*tokens_, extrasPage);
  for (int32_t block = 0; extras.present() && block < fromBlock; block++) extras.skip(extras.readBytes(block), block);

  Row<Encoder, Digest> row(options_, tokens, hashes, extras);
  for (int32_t block = fromBlock; block < toBlock; block++) parent = row.hash(block, parent);
  return toBlock - fromBlock;
}

}  // namespace mooncake_kv
