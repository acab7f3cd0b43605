// Result codes per key and per batch: the numbers of EngineCode in src/store/engine.ts.
#pragma once

#include <cstdint>

namespace mooncake_kv::code {

inline constexpr int32_t OK = 0;
inline constexpr int32_t NO_AVAILABLE_HANDLE = -200;
inline constexpr int32_t BUFFER_SMALLER = -600;
inline constexpr int32_t OBJECT_NOT_FOUND = -704;
/** A reader has leased the key, so that it was not removed. */
inline constexpr int32_t OBJECT_HAS_LEASE = -706;
inline constexpr int32_t BUFFER_LARGER = -800;
inline constexpr int32_t ENGINE_ERROR = -901;
inline constexpr int32_t ENGINE_DOWN = -902;
inline constexpr int32_t CLOSED = -903;
inline constexpr int32_t BAD_ENTRY = -904;
inline constexpr int32_t CHECKSUM_MISMATCH = -905;
/** The engine cannot reach the KV memory that a batch names. */
inline constexpr int32_t REGISTRATION_REFUSED = -906;
/** A call was not answered in time; it may go on. */
inline constexpr int32_t TIMED_OUT = -907;
/** There is a value, but no call on single keys takes one of its size. */
inline constexpr int32_t VALUE_TOO_LARGE = -908;
/** The value was removed while it was read: its bytes may be those of another. */
inline constexpr int32_t REMOVED_UNDER_READ = -909;
/** The pool has the key and cannot read its bytes, now and hereafter. */
inline constexpr int32_t VALUE_UNREADABLE = -910;

}  // namespace mooncake_kv::code
