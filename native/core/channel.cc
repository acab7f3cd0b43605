#include "core/channel.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "core/codes.h"
#include "core/error.h"
#include "core/layout.h"

namespace mooncake_kv {

namespace {

std::atomic_ref<int32_t> shared(int32_t& word) { return std::atomic_ref<int32_t>(word); }

int32_t microseconds(uint64_t nanoseconds) {
  return static_cast<int32_t>(std::min<uint64_t>(nanoseconds / 1000, INT32_MAX));
}

int64_t inRange(const char* field, int64_t value, int64_t max) {
  if (value >= 1 && value <= max) return value;
  throw invalidValue(field, value, "it must be from 1 to " + std::to_string(max), "Choose a smaller channel.");
}

}  // namespace

std::shared_ptr<Channel> Channel::open(Options options) {
  inRange("batchSlots", options.batchSlots, BATCH_SLOTS_MAX);
  inRange("keysPerBatchMax", options.keysPerBatchMax, KEYS_PER_BATCH_MAX);
  const uint64_t words =
      layout::channelWords(static_cast<uint32_t>(options.batchSlots), static_cast<uint32_t>(options.keysPerBatchMax));
  const uint64_t room = options.memory->bytes() / 4;
  const auto offset = static_cast<uint64_t>(options.wordOffset);
  if (options.wordOffset < 0 || offset > room || words > room - offset) {
    throw invalidValue("wordOffset", options.wordOffset,
                       "a channel of " + std::to_string(words) + " words does not fit the memory of " + std::to_string(room) + " words",
                       "Size the memory with channelWords().");
  }
  if (reinterpret_cast<uintptr_t>(options.memory->data()) % 4 != 0) {
    throw invalidValue("sharedId", "", "the memory must start at a whole word", "Register a view at an offset divisible by 4.");
  }
  return std::shared_ptr<Channel>(new Channel(std::move(options)));
}

Channel::Channel(Options options)
    : options_(std::move(options)),
      words_(reinterpret_cast<int32_t*>(options_.memory->data()) + options_.wordOffset),
      ringMask_(layout::completionSlots(static_cast<uint32_t>(options_.batchSlots)) - 1),
      batches_(static_cast<size_t>(options_.batchSlots)) {
  const uint32_t keysMax = static_cast<uint32_t>(options_.keysPerBatchMax);
  int32_t* first = words_ + layout::CHANNEL_HEADER_WORDS + layout::ringWords(static_cast<uint32_t>(options_.batchSlots));
  for (uint32_t slot = 0; slot < batches_.size(); slot++) {
    Batch& batch = batches_[slot];
    batch.slot_ = slot;
    batch.header_ = first + slot * layout::batchWords(keysMax);
    batch.entries_ = batch.header_ + layout::BATCH_HEADER_WORDS;
    batch.results_ = batch.entries_ + uint64_t{keysMax} * layout::ENTRY_WORDS;
    batch.tiers_ = batch.results_ + keysMax;
  }
}

void Channel::submit(int64_t slot) {
  if (closed_.load(std::memory_order_acquire)) {
    throw Error("CLOSED", "channelId", "", "the channel takes no more batches", "Submit before channelClose only.");
  }
  Batch& batch = checkedBatch(slot);
  const Entered memory(*options_.memory);
  if (!memory) {
    throw Error("CLOSED", "channelId", "", "the thread that registered the channel's memory has ended", "Open a new channel.");
  }
  fillFromHeader(batch);
  const uint32_t parts = partsOf(batch);
  if (batch.tasks_.size() < parts) batch.tasks_.resize(parts);
  batch.channel_ = shared_from_this();
  batch.submittedNanoseconds_ = monotonicNanoseconds();
  batch.startedNanoseconds_.store(0, std::memory_order_relaxed);
  batch.status_.store(code::OK, std::memory_order_relaxed);
  batch.inFlight_.store(true, std::memory_order_relaxed);
  inFlight_.fetch_add(1, std::memory_order_acq_rel);
  if (const int32_t refusal = options_.engine->countIn(); refusal != code::OK) {
    refuse(batch, refusal);
    return;
  }
  const uint32_t count = batch.count_;
  // The engine host outlives this call: the channel holds it, and the caller the channel.
  EngineHost& host = *options_.engine;
  const int32_t operation = batch.operation_;
  batch.partsLeft_.store(parts, std::memory_order_relaxed);
  // After the last push the batch may be done and its slot in use again, so nothing of it is read below.
  for (uint32_t part = 0; part < parts; part++) {
    const auto edge = [&](uint32_t index) { return static_cast<uint32_t>(uint64_t{count} * index / parts); };
    batch.tasks_[part] = {runPart, &batch, edge(part), edge(part + 1)};
    host.push(operation, batch.tasks_[part]);
  }
}

Batch& Channel::checkedBatch(int64_t slot) {
  if (slot < 0 || slot >= options_.batchSlots) {
    throw invalidValue("slot", slot, "the channel has " + std::to_string(options_.batchSlots) + " batch slots",
                       "Pass a slot that acquire() returned.");
  }
  Batch& batch = batches_[static_cast<size_t>(slot)];
  if (batch.inFlight_.load(std::memory_order_acquire)) {
    throw invalidValue("slot", slot, "this batch is in flight already", "Submit a batch once.");
  }
  return batch;
}

void Channel::fillFromHeader(Batch& batch) {
  // Acquire pairs with the actor's store of SUBMITTED, which it makes after it filled the words below.
  const int32_t state = shared(batch.header_[layout::BATCH_STATE_WORD]).load(std::memory_order_acquire);
  if (state != layout::BATCH_STATE_SUBMITTED) {
    throw invalidValue("slot", batch.slot_, "its state word is " + std::to_string(state) + ", not SUBMITTED",
                       "Publish the batch before channelSubmit.");
  }
  // A ring entry that the actor has not taken must not be written over. Acquire pairs with the actor's store of the head.
  const uint32_t head = static_cast<uint32_t>(shared(words_[layout::CHANNEL_HEAD_WORD]).load(std::memory_order_acquire));
  const uint32_t tail = static_cast<uint32_t>(shared(words_[layout::CHANNEL_TAIL_WORD]).load(std::memory_order_acquire));
  if (inFlight() + (tail - head) > ringMask_) {
    throw Error("CAPACITY", "slot", std::to_string(batch.slot_), "the completion ring has no room",
                "Poll completions before submitting more.");
  }
  batch.operation_ = batch.header_[layout::BATCH_OPERATION];
  batch.tag_ = batch.header_[layout::BATCH_TAG];
  const int32_t count = batch.header_[layout::BATCH_COUNT];
  if (batch.operation_ < layout::OPERATION_EXISTS || batch.operation_ > layout::OPERATION_REMOVE_ALL) {
    throw invalidValue("operation", batch.operation_, "there is no such operation", "Use one of the OPERATION_ constants.");
  }
  const bool everything = batch.operation_ == layout::OPERATION_REMOVE_ALL;
  if (count < 0 || count > options_.keysPerBatchMax || (everything && count != 0)) {
    throw invalidValue("count", count, "a batch has 0 to keysPerBatchMax keys, and none to remove all", "Split the batch.");
  }
  batch.count_ = static_cast<uint32_t>(count);
  batch.keySpace_ = count == 0 ? nullptr : keySpaces().require(batch.header_[layout::BATCH_KEY_SPACE]);
}

void Channel::refuse(Batch& batch, int32_t status) {
  std::fill_n(batch.results_, batch.count_, status);
  batch.status_.store(status, std::memory_order_relaxed);
  complete(batch);
}

void Channel::drop(Batch& batch) {
  batch.keySpace_.reset();
  batch.inFlight_.store(false, std::memory_order_release);
  inFlight_.fetch_sub(1, std::memory_order_acq_rel);
  batch.channel_.reset();
}

void Channel::complete(Batch& batch) {
  const uint64_t now = monotonicNanoseconds();
  const uint64_t started = batch.startedNanoseconds_.load(std::memory_order_relaxed);
  const uint64_t taken = started == 0 ? now : started;
  const int32_t status = batch.status_.load(std::memory_order_relaxed);
  batch.header_[layout::BATCH_STATUS] = status;
  batch.header_[layout::BATCH_QUEUE_MICROSECONDS] = microseconds(taken - batch.submittedNanoseconds_);
  batch.header_[layout::BATCH_ENGINE_MICROSECONDS] = microseconds(now - taken);
  batch.keySpace_.reset();
  batch.channel_.reset();
  pushCompletion(batch, status, microseconds(now - batch.submittedNanoseconds_));
  options_.wake(options_.wakeId);
}

void Channel::pushCompletion(Batch& batch, int32_t status, int32_t microseconds) {
  std::lock_guard lock(ringMutex_);
  const uint32_t tail = static_cast<uint32_t>(shared(words_[layout::CHANNEL_TAIL_WORD]).load(std::memory_order_relaxed));
  int32_t* completion = words_ + layout::CHANNEL_HEADER_WORDS + (tail & ringMask_) * layout::COMPLETION_WORDS;
  completion[layout::COMPLETION_SLOT] = static_cast<int32_t>(batch.slot_);
  completion[layout::COMPLETION_STATUS] = status;
  completion[layout::COMPLETION_TAG] = batch.tag_;
  completion[layout::COMPLETION_MICROSECONDS] = microseconds;
  // Release pairs with the load by a restarted actor that looks for batches still submitted.
  shared(batch.header_[layout::BATCH_STATE_WORD]).store(layout::BATCH_STATE_DONE, std::memory_order_release);
  // After DONE, so that a restarted actor that hands the batch over again finds it in flight or done, never neither; and before
  // the tail, because from there on the actor may use the slot again. Release pairs with the load at submit.
  batch.inFlight_.store(false, std::memory_order_release);
  inFlight_.fetch_sub(1, std::memory_order_acq_rel);
  // Release pairs with the actor's load of the tail: results, header and ring entry are visible before it.
  shared(words_[layout::CHANNEL_TAIL_WORD]).store(static_cast<int32_t>(tail + 1), std::memory_order_release);
}

uint32_t Channel::close() {
  closed_.store(true, std::memory_order_release);
  return inFlight();
}

}  // namespace mooncake_kv
