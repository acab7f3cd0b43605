#include "core/block_hash.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/pages.h"
#include "core/sha256.h"

namespace mooncake_kv {

namespace {

constexpr uint8_t CBOR_ARRAY = 0x80;
constexpr uint8_t CBOR_BYTES = 0x40;
constexpr uint8_t CBOR_UNSIGNED = 0x00;
constexpr uint8_t CBOR_NULL = 0xf6;
/** Array head, parent, head of the token array. */
constexpr size_t HEAD_BYTES_MAX = 1 + 5 + 64 + 5;

/** A CBOR head: major type and argument in the shortest form, as canonical CBOR wants. */
inline uint8_t* encodeHead(uint8_t* to, uint8_t major, uint32_t argument) {
  if (argument < 24) {
    *to++ = static_cast<uint8_t>(major | argument);
  } else if (argument < 0x100) {
    *to++ = major | 24;
    *to++ = static_cast<uint8_t>(argument);
  } else if (argument < 0x10000) {
    *to++ = major | 25;
    *to++ = static_cast<uint8_t>(argument >> 8);
    *to++ = static_cast<uint8_t>(argument);
  } else {
    *to++ = major | 26;
    const uint32_t big = __builtin_bswap32(argument);
    std::memcpy(to, &big, 4);
    to += 4;
  }
  return to;
}

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

}  // namespace

uint8_t* encodeBlockHead(uint8_t* to, std::span<const uint8_t> parent, uint32_t tokens) {
  to = encodeHead(to, CBOR_ARRAY, 3);
  to = encodeHead(to, CBOR_BYTES, static_cast<uint32_t>(parent.size()));
  std::memcpy(to, parent.data(), parent.size());
  return encodeHead(to + parent.size(), CBOR_ARRAY, tokens);
}

uint8_t* encodeTokens(uint8_t* to, const int32_t* tokens, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    const uint32_t token = static_cast<uint32_t>(tokens[i]);
    if (token < 0x100) {
      to = encodeHead(to, CBOR_UNSIGNED, token);
      continue;
    }
    // Two or four bytes without a branch: which of the two is a coin toss for the usual vocabulary of some 100,000 tokens.
    const bool wide = token >= 0x10000;
    *to = static_cast<uint8_t>(CBOR_UNSIGNED | (25 + wide));
    const uint32_t big = __builtin_bswap32(token << (wide ? 0 : 16));
    std::memcpy(to + 1, &big, 4);
    to += wide ? 5 : 3;
  }
  return to;
}

Hasher::Hasher(int32_t blockSize, std::span<const uint8_t> noneHash, std::shared_ptr<Memory> tokens, std::shared_ptr<Memory> hashes)
    : blockSize_(blockSize), noneHash_(noneHash.begin(), noneHash.end()), tokens_(std::move(tokens)), hashes_(std::move(hashes)) {
  if (blockSize < 1 || blockSize > BLOCK_SIZE_MAX) {
    throw invalidValue("blockSize", blockSize, "a block holds 1 to 65535 tokens", "Set block_size to the model's block size.");
  }
  if (noneHash.size() != SHA256_BYTES) {
    throw invalidValue("noneHash", static_cast<int64_t>(noneHash.size()), "it must have 32 bytes", "Pass the digest of the hash seed.");
  }
}

int32_t Hasher::hash(int32_t tokenPage, int32_t hashPage, int32_t extrasPage, int32_t fromBlock, int32_t toBlock) const {
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
  if (!tokens.seek(tokenPage, int64_t{fromBlock} * blockSize_)) throw chainEnds("tokenPage", fromBlock);
  ChainCursor hashes = hashChain(*hashes_);
  int32_t* digest = nullptr;
  const uint8_t* parent = noneHash_.data();
  if (fromBlock == 0) {
    if (!hashes.seek(hashPage, 0)) throw chainEnds("hashPage", 0);
  } else {
    if (!hashes.seek(hashPage, fromBlock - 1) || hashes.run(digest) == 0) throw chainEnds("hashPage", fromBlock - 1);
    hashes.take(1);
    parent = reinterpret_cast<const uint8_t*>(digest);
  }
  ExtrasReader extras(*tokens_, extrasPage);
  for (int32_t block = 0; extras.present() && block < fromBlock; block++) extras.skip(extras.readBytes(block), block);

  const Sha256Compress compress = sha256Compress();
  const size_t plainBytes = HEAD_BYTES_MAX + 5 * static_cast<size_t>(blockSize_) + 1 + SHA256_PADDING_MAX;
  static thread_local std::vector<uint8_t> message;
  if (message.size() < plainBytes) message.resize(plainBytes);
  for (int32_t block = fromBlock; block < toBlock; block++) {
    uint8_t* to = encodeBlockHead(message.data(), {parent, SHA256_BYTES}, static_cast<uint32_t>(blockSize_));
    for (int32_t left = blockSize_; left > 0;) {
      int32_t* words = nullptr;
      const int32_t part = std::min(left, tokens.run(words));
      if (part == 0) throw chainEnds("tokenPage", block);
      to = encodeTokens(to, words, part);
      tokens.take(part);
      left -= part;
    }
    const int32_t extraBytes = extras.present() ? extras.readBytes(block) : 0;
    if (extraBytes == 0) {
      *to++ = CBOR_NULL;
    } else {
      const size_t used = static_cast<size_t>(to - message.data());
      if (message.size() < plainBytes + static_cast<size_t>(extraBytes)) message.resize(plainBytes + static_cast<size_t>(extraBytes));
      to = extras.copy(message.data() + used, extraBytes, block);
    }
    if (hashes.run(digest) == 0) throw chainEnds("hashPage", block);
    hashes.take(1);
    uint8_t* out = reinterpret_cast<uint8_t*>(digest);
    sha256InPlace(compress, message.data(), static_cast<size_t>(to - message.data()), out);
    parent = out;
  }
  return toBlock - fromBlock;
}

}  // namespace mooncake_kv
