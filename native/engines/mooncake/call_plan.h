// How a request is cut into calls that the store can take.
#pragma once

#include <cstdint>

#include "core/pool_request.h"
#include "engines/engine_options.h"
#include "engines/mooncake/transfer.h"

namespace mooncake_kv::mooncake {

struct CallLimits {
  uint32_t keysMax = 0;
  /** Of an owner's staging buffer for its disk, which is filled in pages; 0: no such limit. */
  uint64_t bytesMax = 0;
  /** Pieces of memory: each is a transfer of its own, and the wheel's TCP transport breaks for good when its queue overflows. */
  uint32_t piecesMax = 0;
  /** Bytes of a buffer in which small segments are gathered; 0: they never are. */
  uint64_t stagingBytes = 0;
  /** Larger segments are cut into pieces of so many bytes. */
  uint64_t putPieceBytes = UINT64_MAX;
  uint64_t getPieceBytes = UINT64_MAX;
};

CallLimits callLimits(const MooncakeOptions& options);

/** What the owner's staging buffer holds for a value: whole pages and two more, as vLLM counts. */
inline uint64_t stagedOnDisk(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096 + 8192; }

struct PlannedCall {
  /** Keys [from, to) of the request. */
  uint32_t from = 0;
  uint32_t to = 0;
  /** Whether the values are gathered in a staging buffer; all of them fit. */
  bool staged = false;
};

/**
 * The next call from key `from` on: as many keys as fit the limits, at least one (a value above a limit travels alone). A call is
 * staged when the segments of its first value are many and small, and holds values like it only.
 */
PlannedCall nextCall(const PoolRequest& request, uint32_t from, const CallLimits& limits);

/** The pieces of a call where its segments lie, or of each value in `staging`. */
void fillTransfer(const PoolRequest& request, const PlannedCall& call, const CallLimits& limits, uint8_t* staging, Transfer& transfer);

/** Copies the values of a call into a staging buffer. */
void gather(const PoolRequest& request, const PlannedCall& call, uint8_t* staging);

}  // namespace mooncake_kv::mooncake
