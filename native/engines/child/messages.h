// What this process and the engine's process say to each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/control_call.h"
#include "core/engine.h"
#include "core/error.h"
#include "core/pool_request.h"
#include "engines/child/archive.h"
#include "engines/child/protocol.h"
#include "engines/engine_options.h"

namespace mooncake_kv::child {

inline constexpr uint32_t MAGIC = 0x43454b4d;

/** The first byte of a message. */
enum class Kind : uint8_t {
  // Over the control socket.
  /** To the child, once, with the child's ends of all links: MAGIC, PROTOCOL, engine options. */
  hello = 1,
  /** From the child: its PROTOCOL. */
  welcome = 2,
  /** The engine is open: statistics. */
  opened = 3,
  /** The engine did not open: an Error. */
  failed = 4,
  /** The engine's connection is of no use any more: a text. */
  lost = 5,
  // Over a link, each answered before the next: the answer is what the call returns, then the statistics.
  run = 16,
  control = 17,
  /** With the memfd: number, bytes. Answered by a Refusal. */
  registerMemory = 18,
  /** Number. Answered by a Refusal. */
  unregisterMemory = 19,
  corrupt = 20,
};

/** Statistics with the number of their reading in the child, so that of two answers the newer counts. */
struct NumberedStatistics {
  uint64_t number = 0;
  EngineStatistics statistics{};
};

template <typename Archive, typename Statistics>
void statisticsFields(Archive& archive, Statistics&& numbered) {
  auto& read = numbered.statistics;
  archive(numbered.number, read.bytesMax, read.bytesUsed, read.keys, read.evictions, read.puts, read.putRefusals, read.gets, read.getMisses);
}

template <typename Archive, typename Request>
void controlRequestFields(Archive& archive, Request&& request) {
  archive(request.operation, request.key, request.value, request.limit, request.force, request.keepChecksums);
}

template <typename Archive, typename Reply>
void controlReplyFields(Archive& archive, Reply&& reply) {
  archive(reply.status, reply.count, reply.kept, reply.value, reply.keys, reply.text);
}

void writeError(Writer& writer, const Error& error);
Error readError(Reader& reader);

/** The options of an engine that is no child itself; throws std::logic_error for a child's. */
void writeOptions(Writer& writer, const EngineOptions& options);
EngineOptions readOptions(Reader& reader);

/** Keys and segments; segments name their memory by its number in the process that asks. */
void writeRequest(Writer& writer, const PoolRequest& request);
/** `memoryOf` gives the memory of a number, or null. Throws Malformed for segments outside of a known memory. */
void readRequest(Reader& reader, PoolRequest& request, const std::function<const Memory*(uint64_t number)>& memoryOf);

/** The status of a run with results and tiers of all keys. */
void writeResults(Writer& writer, int32_t status, const PoolRequest& request);
/** Into the request that was written; returns the status. */
int32_t readResults(Reader& reader, PoolRequest& request);

}  // namespace mooncake_kv::child
