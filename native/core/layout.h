// The shared-memory layout as native code sees it. src/blocks/layout.ts is the original and says what each word means; a test
// compares both through the addon's layoutConstants().
#pragma once

#include <cstdint>

// name, value
#define MOONCAKE_KV_LAYOUT(X)      \
  X(LINE_WORDS, 16)                \
  X(GROUPS_MAX, 16)                \
  X(NONE, -1)                      \
  X(PAGE_HEADER_WORDS, 16)         \
  X(PAGE_NEXT, 0)                  \
  X(TOKEN_PAGE_WORDS, 1024)        \
  X(TOKENS_PER_PAGE, 1008)         \
  X(HASH_STRIDE_WORDS, 8)          \
  X(HASH_PAGE_WORDS, 512)          \
  X(HASHES_PER_PAGE, 62)           \
  X(CHANNEL_HEADER_WORDS, 32)      \
  X(CHANNEL_TAIL_WORD, 0)          \
  X(CHANNEL_HEAD_WORD, 16)         \
  X(COMPLETION_WORDS, 4)           \
  X(COMPLETION_SLOT, 0)            \
  X(COMPLETION_STATUS, 1)          \
  X(COMPLETION_TAG, 2)             \
  X(COMPLETION_MICROSECONDS, 3)    \
  X(BATCH_HEADER_WORDS, 16)        \
  X(BATCH_STATE_WORD, 0)           \
  X(BATCH_OPERATION, 1)            \
  X(BATCH_COUNT, 2)                \
  X(BATCH_TAG, 3)                  \
  X(BATCH_KEY_SPACE, 4)            \
  X(BATCH_STATUS, 5)               \
  X(BATCH_EPOCH, 6)                \
  X(BATCH_QUEUE_MICROSECONDS, 7)   \
  X(BATCH_ENGINE_MICROSECONDS, 8)  \
  X(BATCH_JOB, 9)                  \
  X(BATCH_STATE_FREE, 0)           \
  X(BATCH_STATE_FILLING, 1)        \
  X(BATCH_STATE_SUBMITTED, 2)      \
  X(BATCH_STATE_DONE, 3)           \
  X(ENTRY_WORDS, 4)                \
  X(ENTRY_GROUP, 0)                \
  X(ENTRY_PREFIX, 1)               \
  X(ENTRY_BLOCK, 2)                \
  X(ENTRY_HASH_ROW, 3)             \
  X(OPERATION_EXISTS, 1)           \
  X(OPERATION_PUT, 2)              \
  X(OPERATION_GET, 3)              \
  X(OPERATION_REMOVE, 4)           \
  X(OPERATION_REMOVE_ALL, 5)       \
  X(TIER_UNKNOWN, 0)               \
  X(TIER_MEMORY, 1)                \
  X(TIER_DISK, 2)                  \
  X(TIER_MASK, 3)                  \
  X(CHECK_VERIFIED, 4)             \
  X(EXISTS_UNCHECKED, 2)

namespace mooncake_kv::layout {

#define X(name, value) inline constexpr int32_t name = value;
MOONCAKE_KV_LAYOUT(X)
#undef X

/** Completion-ring entries: a power of two that holds every batch slot, so that the ring cannot overflow. */
constexpr uint32_t completionSlots(uint32_t batchSlots) {
  uint32_t slots = 1;
  while (slots < batchSlots) slots *= 2;
  return slots;
}
constexpr uint64_t wholeLines(uint64_t words) { return (words + LINE_WORDS - 1) / LINE_WORDS * LINE_WORDS; }

/** Words of one batch slot: header, entries, results, tiers. */
constexpr uint64_t batchWords(uint32_t keysPerBatchMax) {
  return wholeLines(BATCH_HEADER_WORDS + uint64_t{keysPerBatchMax} * (ENTRY_WORDS + 2));
}
constexpr uint64_t ringWords(uint32_t batchSlots) {
  return wholeLines(uint64_t{completionSlots(batchSlots)} * COMPLETION_WORDS);
}
constexpr uint64_t channelWords(uint32_t batchSlots, uint32_t keysPerBatchMax) {
  return CHANNEL_HEADER_WORDS + ringWords(batchSlots) + batchSlots * batchWords(keysPerBatchMax);
}

}  // namespace mooncake_kv::layout
