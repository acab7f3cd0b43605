// Reads and writes chains of fixed-size pages (layout.ts, "Pages").
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/layout.h"
#include "core/memory.h"

namespace mooncake_kv {

/** A position in a chain. Never leaves the arena: a page number out of range reads as the end of the chain. */
class ChainCursor {
 public:
  ChainCursor(int32_t* words, int64_t arenaWords, int32_t pageWords, int32_t entryWords)
      : words_(words),
        pages_(arenaWords / pageWords),
        pageWords_(pageWords),
        entryWords_(entryWords),
        perPage_((pageWords - layout::PAGE_HEADER_WORDS) / entryWords) {}

  /** False when the chain ends before entry `index` could be reached. */
  bool seek(int32_t page, int64_t index) {
    page_ = page;
    index_ = 0;
    return skip(index);
  }

  /** Moves on by `entries`; the position may then be the very end of a page whose successor does not exist. */
  bool skip(int64_t entries) {
    if (!onPage()) return false;
    int64_t at = index_ + entries;
    while (at > perPage_) {
      page_ = words_[int64_t{page_} * pageWords_ + layout::PAGE_NEXT];
      if (!onPage()) return false;
      at -= perPage_;
    }
    index_ = static_cast<int32_t>(at);
    return true;
  }

  /** Entries that lie together from here (0: the chain ends), their first word in `first`. */
  int32_t run(int32_t*& first) {
    if (index_ == perPage_ && onPage()) {
      page_ = words_[int64_t{page_} * pageWords_ + layout::PAGE_NEXT];
      index_ = 0;
    }
    if (!onPage()) return 0;
    first = words_ + int64_t{page_} * pageWords_ + layout::PAGE_HEADER_WORDS + int64_t{index_} * entryWords_;
    return perPage_ - index_;
  }
  void take(int32_t entries) { index_ += entries; }

 private:
  bool onPage() const { return page_ >= 0 && page_ < pages_; }

  int32_t* const words_;
  const int64_t pages_;
  const int32_t pageWords_;
  const int32_t entryWords_;
  const int32_t perPage_;
  int32_t page_ = layout::NONE;
  int32_t index_ = 0;
};

inline ChainCursor tokenChain(const Memory& arena) {
  return ChainCursor(reinterpret_cast<int32_t*>(arena.data()), static_cast<int64_t>(arena.bytes() / 4), layout::TOKEN_PAGE_WORDS, 1);
}
inline ChainCursor hashChain(const Memory& arena) {
  return ChainCursor(reinterpret_cast<int32_t*>(arena.data()), static_cast<int64_t>(arena.bytes() / 4), layout::HASH_PAGE_WORDS,
                     layout::HASH_STRIDE_WORDS);
}

/** Number of hash rows of an arena, and where row `row` lies: row = page * HASHES_PER_PAGE + index in the page. */
inline int64_t hashRows(const Memory& arena) {
  return static_cast<int64_t>(arena.bytes() / 4 / layout::HASH_PAGE_WORDS) * layout::HASHES_PER_PAGE;
}
inline const uint8_t* hashAt(const Memory& arena, int32_t row) {
  const int64_t page = row / layout::HASHES_PER_PAGE;
  const int64_t index = row % layout::HASHES_PER_PAGE;
  return arena.data() + 4 * (page * layout::HASH_PAGE_WORDS + layout::PAGE_HEADER_WORDS + index * layout::HASH_STRIDE_WORDS);
}

}  // namespace mooncake_kv
