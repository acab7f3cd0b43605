// One function a file of the addon: it puts that file's functions (src/native/binding.ts) into the exports.
#pragma once

#include <napi.h>

#include <cstdint>

namespace mooncake_kv::addon {

void defineMemories(Napi::Object exports);
void defineWakes(Napi::Object exports);
void defineHashing(Napi::Object exports);
void defineKeySpaces(Napi::Object exports);
void defineEngines(Napi::Object exports);
void defineEngineCalls(Napi::Object exports);
void defineChannels(Napi::Object exports);
void defineWheelLog(Napi::Object exports);
void defineFileLock(Napi::Object exports);

/** Wakes the loop that opened `wakeId`; any thread. */
bool wake(int32_t wakeId);

}  // namespace mooncake_kv::addon
