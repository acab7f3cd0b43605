// channelOpen, channelClose, channelSubmit.
#include <memory>

#include "addon/arguments.h"
#include "addon/engines.h"
#include "addon/memories.h"
#include "addon/subjects.h"
#include "core/channel.h"

namespace mooncake_kv::addon {

namespace {

Registry<Channel>& channels() {
  static auto* registry = new Registry<Channel>("channelId");
  return *registry;
}

napi_value channelOpen(const Arguments<1>& arguments) {
  const Options options(arguments.env, arguments[0]);
  Channel::Options made;
  made.engine = engines().require(options.id("engineId"));
  made.memory = sharedMemories().require(options.id("sharedId"));
  made.wordOffset = options.integer("wordOffset", 0, BYTES_LAST);
  made.batchSlots = options.integer("batchSlots", 1, Channel::BATCH_SLOTS_MAX);
  made.keysPerBatchMax = options.integer("keysPerBatchMax", 1, Channel::KEYS_PER_BATCH_MAX);
  made.wakeId = options.id("wakeId");
  made.wake = wake;
  return number(arguments.env, channels().add(Channel::open(std::move(made))));
}

napi_value channelClose(const Arguments<1>& arguments) {
  // Batches in flight hold the channel, so the registry lets go of it at once.
  const std::shared_ptr<Channel> channel = channels().remove(arguments.int32(0, "channelId"));
  return number(arguments.env, channel == nullptr ? 0 : channel->close());
}

napi_value channelSubmit(const Arguments<2>& arguments) {
  const std::shared_ptr<Channel> channel = channels().require(arguments.int32(0, "channelId"));
  channel->submit(arguments.integer(1, "slot", INT32_MIN, INT32_LAST));
  return nullptr;
}

}  // namespace

void defineChannels(Napi::Object exports) {
  define<1, channelOpen>(exports, "channelOpen");
  define<1, channelClose>(exports, "channelClose");
  define<2, channelSubmit>(exports, "channelSubmit");
}

}  // namespace mooncake_kv::addon
