#include "engines/child/served_engine.h"

#include <fcntl.h>

#include <exception>
#include <functional>
#include <string>

#include "core/codes.h"
#include "core/error.h"

namespace mooncake_kv::child {

namespace {

/** A call that answers nothing, or refuses. */
void answerDone(Writer& writer, const std::function<void()>& call) {
  try {
    call();
    writer(true);
  } catch (const Error& error) {
    writer(false);
    writeError(writer, error);
  } catch (const std::exception& error) {
    writer(false);
    writeError(writer, Error("REGISTRATION_REFUSED", "segments", "", error.what(), "See the engine's log."));
  }
}

}  // namespace

void ServedEngine::serve(Wire link) {
  PoolRequest request;
  std::vector<uint8_t> bytes;
  std::vector<Descriptor> descriptors;
  std::span<const uint8_t> message;
  while (link.receive(message, &descriptors) == Outcome::done) {
    Writer writer(bytes);
    answer(message, descriptors, request, writer);
    descriptors.clear();
    statisticsFields(writer, statistics());
    if (link.send(writer.finish()) != Outcome::done) return;
  }
}

void ServedEngine::answer(std::span<const uint8_t> message, std::vector<Descriptor>& descriptors, PoolRequest& request, Writer& writer) {
  Reader reader(message);
  switch (reader.take<Kind>()) {
    case Kind::run:
      return run(reader, request, writer);
    case Kind::control: {
      ControlRequest asked;
      controlRequestFields(reader, asked);
      return controlReplyFields(writer, control(asked));
    }
    case Kind::registerMemory:
      return answerDone(writer, [&] { registerMemory(reader, descriptors); });
    case Kind::unregisterMemory:
      return answerDone(writer, [&] { unregisterMemory(reader.take<uint64_t>()); });
    case Kind::corrupt: {
      const auto key = reader.take<std::string>();
      return writer(engine_->corrupt(key, reader.take<uint64_t>()));
    }
    default:
      throw Malformed("not a message of a link");
  }
}

void ServedEngine::run(Reader& reader, PoolRequest& request, Writer& writer) {
  const std::shared_ptr<const Memories> known = memories();
  readRequest(reader, request, [&](uint64_t number) -> const Memory* {
    const auto found = known->find(number);
    return found == known->end() ? nullptr : found->second.get();
  });
  int32_t status = code::ENGINE_ERROR;
  try {
    status = engine_->run(request);
  } catch (const std::exception&) {
    // As in a host: what was done is unknown, so all has failed.
  }
  writeResults(writer, status, request);
}

ControlReply ServedEngine::control(const ControlRequest& request) {
  try {
    return engine_->control(request);
  } catch (const std::exception& error) {
    return {.status = code::ENGINE_ERROR, .text = error.what()};
  }
}

void ServedEngine::registerMemory(Reader& reader, std::vector<Descriptor>& descriptors) {
  const auto number = reader.take<uint64_t>();
  const auto bytes = reader.take<uint64_t>();
  if (descriptors.size() != 1) throw Malformed("KV memory came without its descriptor");
  std::shared_ptr<Memory> memory = Memory::openMemfd(fcntl(descriptors[0].get(), F_DUPFD_CLOEXEC, 0), bytes);
  engine_->registerMemory(*memory);
  std::lock_guard lock(mutex_);
  auto changed = std::make_shared<Memories>(*memories_);
  changed->insert_or_assign(number, std::move(memory));
  memories_ = std::move(changed);
}

void ServedEngine::unregisterMemory(uint64_t number) {
  std::shared_ptr<Memory> memory;
  {
    std::lock_guard lock(mutex_);
    auto changed = std::make_shared<Memories>(*memories_);
    const auto found = changed->find(number);
    if (found == changed->end()) return;
    memory = std::move(found->second);
    changed->erase(found);
    memories_ = std::move(changed);
  }
  engine_->unregisterMemory(*memory);
}

std::shared_ptr<const ServedEngine::Memories> ServedEngine::memories() {
  std::lock_guard lock(mutex_);
  return memories_;
}

NumberedStatistics ServedEngine::statistics() {
  // Read under the lock, so that a higher number means a later reading.
  std::lock_guard lock(mutex_);
  return {.number = ++readings_, .statistics = engine_->statistics()};
}

void ServedEngine::close() {
  const std::shared_ptr<const Memories> all = memories();
  for (const auto& [number, memory] : *all) unregisterMemory(number);
  engine_->close();
}

}  // namespace mooncake_kv::child
