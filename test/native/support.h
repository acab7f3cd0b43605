// What the tests share: arenas with page chains, and a channel with an actor's side to it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/channel.h"
#include "core/codes.h"
#include "core/error.h"
#include "core/key_space.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/pages.h"

namespace support {

using namespace mooncake_kv;

/** Int32 words that the test owns, seen as host memory. */
class Words {
 public:
  explicit Words(size_t count) : words_(count, 0), memory_(Memory::adoptHost(words_.data(), count * 4, nullptr)) {}
  int32_t* data() { return words_.data(); }
  int32_t& operator[](size_t index) { return words_[index]; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }

 private:
  std::vector<int32_t> words_;
  std::shared_ptr<Memory> memory_;
};

/** An arena whose pages form one chain in the given order. */
inline void chain(Words& arena, int32_t pageWords, const std::vector<int32_t>& pages) {
  for (size_t i = 0; i < pages.size(); i++) {
    arena[static_cast<size_t>(pages[i] * pageWords + layout::PAGE_NEXT)] = i + 1 < pages.size() ? pages[i + 1] : layout::NONE;
  }
}

inline std::string hex(const uint8_t* bytes, size_t count) {
  std::string text;
  char two[3];
  for (size_t i = 0; i < count; i++) {
    std::snprintf(two, sizeof two, "%02x", bytes[i]);
    text += two;
  }
  return text;
}

inline std::vector<uint8_t> unhex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

/** Waits for another thread without a judgement on how long it may take: a hang is the test runner's to report. */
inline void waitUntil(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

inline std::atomic<int> wakes{0};
inline bool countWake(int32_t) {
  wakes.fetch_add(1);
  return true;
}

/** KV memory of `blocks` blocks in `segments` segments each, one hash row a key, one prefix. */
struct World {
  World(int32_t blocks, std::vector<uint64_t> segmentBytes, int32_t hashPages = 4)
      : hashes(static_cast<size_t>(hashPages * layout::HASH_PAGE_WORDS)) {
    uint64_t total = 0;
    for (const uint64_t bytes : segmentBytes) total += bytes * static_cast<uint64_t>(blocks);
    region = Memory::createMemfd(total);
    KeySpace::Options options;
    options.hashes = hashes.memory();
    options.prefixes = {"model@tp0"};
    options.blockCount = blocks;
    std::vector<SegmentRule>& rules = options.groups.emplace_back();
    uint64_t offset = 0;
    for (const uint64_t bytes : segmentBytes) {
      rules.push_back({region, offset, bytes, bytes});
      offset += bytes * static_cast<uint64_t>(blocks);
      valueBytes += bytes;
    }
    // Each row gets a digest of its own: its number, over and over.
    for (int32_t row = 0; row < hashPages * layout::HASHES_PER_PAGE; row++) {
      auto* digest = const_cast<uint8_t*>(hashAt(*hashes.memory(), row));
      for (int i = 0; i < 8; i++) std::memcpy(digest + 4 * i, &row, 4);
    }
    id = keySpaces().add(std::make_shared<KeySpace>(std::move(options)));
    space = keySpaces().find(id);
  }
  ~World() { keySpaces().remove(id); }

  void fill(int32_t block, uint8_t byte) {
    for (const SegmentRule& rule : space->segments(0)) {
      for (uint64_t i = 0; i < rule.bytes; i++) rule.at(block)[i] = static_cast<uint8_t>(byte + i);
    }
  }
  bool holds(int32_t block, uint8_t byte) const {
    for (const SegmentRule& rule : space->segments(0)) {
      for (uint64_t i = 0; i < rule.bytes; i++) {
        if (rule.at(block)[i] != static_cast<uint8_t>(byte + i)) return false;
      }
    }
    return true;
  }
  std::string key(int32_t row) const {
    std::string text;
    EXPECT_TRUE(space->key(0, row, text));
    return text;
  }

  Words hashes;
  std::shared_ptr<Memory> region;
  std::shared_ptr<KeySpace> space;
  uint64_t valueBytes = 0;
  int32_t id = 0;
};

struct Entry {
  int32_t block;
  int32_t row;
  int32_t group = 0;
  int32_t prefix = 0;
};

/** The actor's side of a channel: fills a batch slot, submits, takes completions. One thread. */
class Actor {
 public:
  Actor(std::shared_ptr<EngineHost> engine, int32_t keySpaceId, uint32_t slots = 4, uint32_t keysMax = 64)
      : slots_(slots),
        keysMax_(keysMax),
        keySpaceId_(keySpaceId),
        words(layout::channelWords(slots, keysMax)),
        channel(Channel::open({std::move(engine), words.memory(), 0, slots, keysMax, 1, countWake})) {}
  /** As the end of the thread that owns the words: batches that return later must find them closed. */
  ~Actor() { words.memory()->closeAndWait(); }

  void fill(uint32_t slot, int32_t operation, const std::vector<Entry>& entries, int32_t tag = 7) {
    int32_t* header = headerOf(slot);
    header[layout::BATCH_OPERATION] = operation;
    header[layout::BATCH_COUNT] = static_cast<int32_t>(entries.size());
    header[layout::BATCH_TAG] = tag;
    header[layout::BATCH_KEY_SPACE] = keySpaceId_;
    int32_t* words = header + layout::BATCH_HEADER_WORDS;
    for (const Entry& entry : entries) {
      words[layout::ENTRY_GROUP] = entry.group;
      words[layout::ENTRY_PREFIX] = entry.prefix;
      words[layout::ENTRY_BLOCK] = entry.block;
      words[layout::ENTRY_HASH_ROW] = entry.row;
      words += layout::ENTRY_WORDS;
    }
    std::atomic_ref<int32_t>(header[layout::BATCH_STATE_WORD]).store(layout::BATCH_STATE_SUBMITTED);
  }

  /** Next completion: {slot, status, tag}. */
  std::array<int32_t, 3> take() {
    const auto tail = [&] { return std::atomic_ref<int32_t>(words[layout::CHANNEL_TAIL_WORD]).load(std::memory_order_acquire); };
    waitUntil([&] { return tail() != head_; });
    const uint32_t index = static_cast<uint32_t>(head_) & (layout::completionSlots(slots_) - 1);
    const int32_t* completion = words.data() + layout::CHANNEL_HEADER_WORDS + index * layout::COMPLETION_WORDS;
    const std::array<int32_t, 3> taken = {completion[0], completion[1], completion[2]};
    std::atomic_ref<int32_t>(words[layout::CHANNEL_HEAD_WORD]).store(++head_, std::memory_order_release);
    return taken;
  }

  /** One whole batch; its results. */
  std::vector<int32_t> run(int32_t operation, const std::vector<Entry>& entries, uint32_t slot = 0) {
    fill(slot, operation, entries);
    channel->submit(slot);
    status = take()[1];
    return results(slot, entries.size());
  }
  std::vector<int32_t> results(uint32_t slot, size_t count) {
    const int32_t* first = headerOf(slot) + layout::BATCH_HEADER_WORDS + keysMax_ * layout::ENTRY_WORDS;
    return {first, first + count};
  }
  int32_t tier(uint32_t slot, uint32_t index) {
    return headerOf(slot)[layout::BATCH_HEADER_WORDS + keysMax_ * (layout::ENTRY_WORDS + 1) + index];
  }
  int32_t* headerOf(uint32_t slot) {
    return words.data() + layout::CHANNEL_HEADER_WORDS + layout::ringWords(slots_) + slot * layout::batchWords(keysMax_);
  }

 private:
  const uint32_t slots_;
  const uint32_t keysMax_;
  const int32_t keySpaceId_;
  int32_t head_ = 0;

 public:
  Words words;
  std::shared_ptr<Channel> channel;
  int32_t status = 0;
};

/** Calls straight into an open engine. */
inline std::vector<std::string> keys(const EngineHost& host, const std::string& prefix, uint64_t limit) {
  return host.connection()->engine->control({.operation = ControlOperation::keys, .key = prefix, .limit = limit}).keys;
}
inline uint64_t removePrefix(const EngineHost& host, const std::string& prefix) {
  const ControlReply reply = host.connection()->engine->control({.operation = ControlOperation::removePrefix, .key = prefix});
  return static_cast<uint64_t>(reply.count);
}

/** The error code that `action` throws, or "". */
inline std::string errorOf(const std::function<void()>& action, std::string* field = nullptr) {
  try {
    action();
  } catch (const Error& error) {
    if (field != nullptr) *field = error.field;
    EXPECT_FALSE(error.remedy.empty());
    return error.code;
  }
  return "";
}

}  // namespace support
