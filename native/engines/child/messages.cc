#include "engines/child/messages.h"

#include <cstring>
#include <stdexcept>
#include <string>
#include <variant>

namespace mooncake_kv::child {

namespace {

template <typename Archive, typename Options>
void localFields(Archive& archive, Options& options) {
  archive(options.poolName, options.bytesMax, options.ioThreads, options.verifyChecksums);
}

template <typename Archive, typename Options>
void mooncakeFields(Archive& archive, Options& options) {
  archive(options.pythonExecutable, options.pythonLibrary, options.localHostname, options.metadataServer, options.globalSegmentBytes,
          options.localBufferBytes, options.protocol, options.deviceName, options.masterServerAddress, options.preferredSegment,
          options.tenantId, options.enableOffload, options.groupSemantics, options.reportTiers, options.verify, options.checkRemovals, options.keysPerCallMax,
          options.bytesPerCallMax, options.transferQueueMax, options.logPath, options.existsThreads, options.getThreads, options.putThreads);
}

enum class EngineKind : uint8_t { local = 1, mooncake = 2 };

}  // namespace

void writeError(Writer& writer, const Error& error) { writer(error.code, error.field, error.value, error.problem, error.remedy); }

Error readError(Reader& reader) {
  std::string code, field, value, problem, remedy;
  reader(code, field, value, problem, remedy);
  return Error(std::move(code), std::move(field), std::move(value), std::move(problem), std::move(remedy));
}

void writeOptions(Writer& writer, const EngineOptions& options) {
  if (const auto* local = std::get_if<LocalOptions>(&options)) {
    writer(EngineKind::local);
    localFields(writer, *local);
  } else if (const auto* mooncake = std::get_if<MooncakeOptions>(&options)) {
    writer(EngineKind::mooncake);
    mooncakeFields(writer, *mooncake);
  } else {
    throw std::logic_error("an engine in a child process is no child itself");
  }
}

EngineOptions readOptions(Reader& reader) {
  switch (reader.take<EngineKind>()) {
    case EngineKind::local: {
      LocalOptions options;
      localFields(reader, options);
      return options;
    }
    case EngineKind::mooncake: {
      MooncakeOptions options;
      mooncakeFields(reader, options);
      return options;
    }
  }
  throw Malformed("there is no such engine");
}

void writeRequest(Writer& writer, const PoolRequest& request) {
  const bool moves = movesBytes(request.operation());
  writer(request.operation(), request.count());
  for (uint32_t index = 0; index < request.count(); index++) {
    const std::string_view key = request.key(index);
    writer(static_cast<uint32_t>(key.size()));
    writer.raw(key.data(), key.size());
    if (!moves) continue;
    const auto segments = request.segments(index);
    writer(static_cast<uint32_t>(segments.size()));
    for (const PoolSegment& segment : segments) {
      const uint64_t numbers[] = {segment.memory->number(), segment.offset, segment.bytes};
      writer.raw(numbers, sizeof numbers);
    }
  }
}

void readRequest(Reader& reader, PoolRequest& request, const std::function<const Memory*(uint64_t number)>& memoryOf) {
  const auto operation = reader.take<int32_t>();
  const bool moves = movesBytes(operation);
  request.begin(operation);
  uint64_t lastNumber = 0;
  const Memory* memory = nullptr;
  for (auto keys = reader.take<uint32_t>(); keys > 0; keys--) {
    const std::string_view key = reader.text();
    std::memcpy(request.addKey(key.size()), key.data(), key.size());
    if (!moves) continue;
    for (auto segments = reader.take<uint32_t>(); segments > 0; segments--) {
      uint64_t numbers[3];
      std::memcpy(numbers, reader.raw(sizeof numbers).data(), sizeof numbers);
      const auto [number, offset, bytes] = numbers;
      if (number != lastNumber || memory == nullptr) memory = memoryOf(lastNumber = number);
      if (memory == nullptr) throw Malformed("a segment lies in memory that was not registered");
      if (offset > memory->bytes() || bytes > memory->bytes() - offset) throw Malformed("a segment does not fit its memory");
      request.addSegment(*memory, offset, bytes);
    }
  }
}

void writeResults(Writer& writer, int32_t status, const PoolRequest& request) {
  writer(status, request.count());
  for (uint32_t index = 0; index < request.count(); index++) writer(request.result(index), request.tier(index));
}

int32_t readResults(Reader& reader, PoolRequest& request) {
  const auto status = reader.take<int32_t>();
  if (reader.take<uint32_t>() != request.count()) throw Malformed("the results are those of other keys");
  for (uint32_t index = 0; index < request.count(); index++) {
    request.setResult(index, reader.take<int32_t>());
    request.setTier(index, reader.take<int32_t>());
  }
  return status;
}

}  // namespace mooncake_kv::child
