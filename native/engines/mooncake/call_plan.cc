#include "engines/mooncake/call_plan.h"

#include <algorithm>
#include <cstdlib>

#include "core/copy.h"

namespace mooncake_kv::mooncake {

namespace {

constexpr uint32_t KEYS_A_CALL = 2048;
/** The largest queue that the wheel accepts; open_mooncake.cc asks it for that. */
constexpr uint32_t TRANSFER_QUEUE = 32768;
constexpr uint64_t STAGING_BYTES = 16 << 20;
/** Of larger ones a copy costs as much as the transfers that it saves; a small value stays in the processor's cache meanwhile. */
constexpr uint64_t SMALL_SEGMENT_BYTES = 16 << 10;
constexpr uint64_t SMALL_VALUE_BYTES = 256 << 10;
constexpr uint64_t SEGMENT_OF_SMALL_VALUE_BYTES = 64 << 10;
/**
 * Measured over TCP: with larger transfers the system lets more bytes be on their way than the processor's cache holds, and keeps to
 * that for the life of the connection. Puts are then 0.6 and gets half as fast.
 */
constexpr uint64_t PUT_PIECE_BYTES = 256 << 10;
constexpr uint64_t GET_PIECE_BYTES = 512 << 10;

uint32_t transferQueue(const MooncakeOptions& options) {
  if (options.transferQueueMax > 0) return options.transferQueueMax;
  const char* set = std::getenv("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER");
  const long value = set == nullptr ? 0 : std::atol(set);
  return value > 0 && value <= TRANSFER_QUEUE ? static_cast<uint32_t>(value) : TRANSFER_QUEUE;
}

bool isMany(const PoolRequest& request, uint32_t index, const CallLimits& limits) {
  const size_t segments = request.segments(index).size();
  const uint64_t bytes = request.valueBytes(index);
  if (segments < 2 || bytes > limits.stagingBytes) return false;
  const uint64_t small = bytes <= SMALL_VALUE_BYTES ? SEGMENT_OF_SMALL_VALUE_BYTES : SMALL_SEGMENT_BYTES;
  return segments > limits.piecesMax || bytes <= segments * small;
}

/** Of a value in its segments, or gathered: larger when its pieces would not fit a call. */
uint64_t pieceBytes(const PoolRequest& request, uint32_t index, bool gathered, const CallLimits& limits) {
  const uint64_t segments = gathered ? 1 : request.segments(index).size();
  const uint64_t left = limits.piecesMax > segments ? limits.piecesMax - segments : 1;
  const uint64_t least = (request.valueBytes(index) + left - 1) / left;
  return std::max(request.operation() == layout::OPERATION_GET ? limits.getPieceBytes : limits.putPieceBytes, least);
}

uint64_t piecesOf(uint64_t bytes, uint64_t pieceBytes) { return bytes / pieceBytes + (bytes % pieceBytes > 0); }

uint64_t pieces(const PoolRequest& request, uint32_t index, bool gathered, const CallLimits& limits) {
  const uint64_t each = pieceBytes(request, index, gathered, limits);
  if (gathered) return piecesOf(request.valueBytes(index), each);
  uint64_t count = 0;
  for (const PoolSegment& segment : request.segments(index)) count += piecesOf(segment.bytes, each);
  return count;
}

void addPieces(uint8_t* address, uint64_t bytes, uint64_t pieceBytes, std::vector<Piece>& pieces) {
  for (uint64_t at = 0; at < bytes; at += pieces.back().bytes) pieces.push_back({address + at, std::min(pieceBytes, bytes - at)});
}

}  // namespace

CallLimits callLimits(const MooncakeOptions& options) {
  CallLimits limits;
  limits.keysMax = options.keysPerCallMax > 0 ? options.keysPerCallMax : KEYS_A_CALL;
  limits.bytesMax = options.bytesPerCallMax;
  // All threads may be in a call to the same peer, and it is one queue.
  const uint32_t calls = std::max(1u, options.getThreads + options.putThreads);
  limits.piecesMax = std::max(1u, transferQueue(options) / calls);
  if (options.protocol != "tcp") return limits;
  limits.stagingBytes = STAGING_BYTES;
  limits.putPieceBytes = PUT_PIECE_BYTES;
  limits.getPieceBytes = GET_PIECE_BYTES;
  return limits;
}

PlannedCall nextCall(const PoolRequest& request, uint32_t from, const CallLimits& limits) {
  PlannedCall call{.from = from, .to = from, .staged = isMany(request, from, limits)};
  uint64_t bytes = 0, onDisk = 0, inPieces = 0;
  const uint32_t last = static_cast<uint32_t>(std::min<uint64_t>(request.count(), uint64_t{from} + limits.keysMax));
  for (; call.to < last; call.to++) {
    if (isMany(request, call.to, limits) != call.staged) break;
    bytes += request.valueBytes(call.to);
    onDisk += stagedOnDisk(request.valueBytes(call.to));
    inPieces += pieces(request, call.to, call.staged, limits);
    const bool fits = inPieces <= limits.piecesMax && (limits.bytesMax == 0 || onDisk <= limits.bytesMax) &&
                      (!call.staged || bytes <= limits.stagingBytes);
    if (!fits && call.to > from) break;
  }
  return call;
}

void fillTransfer(const PoolRequest& request, const PlannedCall& call, const CallLimits& limits, uint8_t* staging, Transfer& transfer) {
  transfer.clear();
  for (uint32_t index = call.from; index < call.to; index++) {
    transfer.keys.push_back(index);
    const uint64_t each = pieceBytes(request, index, staging != nullptr, limits);
    if (staging != nullptr) {
      addPieces(staging, request.valueBytes(index), each, transfer.pieces);
      staging += request.valueBytes(index);
    } else {
      for (const PoolSegment& segment : request.segments(index)) addPieces(segment.address(), segment.bytes, each, transfer.pieces);
    }
    transfer.pieceEnds.push_back(static_cast<uint32_t>(transfer.pieces.size()));
  }
}

void gather(const PoolRequest& request, const PlannedCall& call, uint8_t* staging) {
  for (uint32_t index = call.from; index < call.to; index++) {
    gatherValue(request, index, staging);
    staging += request.valueBytes(index);
  }
}

}  // namespace mooncake_kv::mooncake
