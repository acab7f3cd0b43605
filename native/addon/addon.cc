// The addon's entry: called once for each JavaScript thread that loads it.
#include <napi.h>

#include "addon/arguments.h"
#include "addon/environment.h"
#include "addon/subjects.h"
#include "core/clock.h"
#include "core/layout.h"

namespace mooncake_kv::addon {

namespace {

napi_value layoutConstants(const Arguments<1>& arguments) {
  Napi::Object constants = Napi::Object::New(arguments.env);
#define X(name, value) constants.Set(#name, value);
  MOONCAKE_KV_LAYOUT(X)
#undef X
  return constants;
}

napi_value threadCpuNanoseconds(const Arguments<1>& arguments) {
  return number(arguments.env, static_cast<double>(nanoseconds(CLOCK_THREAD_CPUTIME_ID)));
}

napi_value monotonicNanosecondsNow(const Arguments<1>& arguments) {
  return number(arguments.env, static_cast<double>(monotonicNanoseconds()));
}

Napi::Object start(Napi::Env env, Napi::Object exports) {
  Environment::attach(env);
  define<1, layoutConstants>(exports, "layoutConstants");
  define<1, threadCpuNanoseconds>(exports, "threadCpuNanoseconds");
  define<1, monotonicNanosecondsNow>(exports, "monotonicNanoseconds");
  defineMemories(exports);
  defineWakes(exports);
  defineHashing(exports);
  defineKeySpaces(exports);
  defineEngines(exports);
  defineEngineCalls(exports);
  defineChannels(exports);
  defineWheelLog(exports);
  defineFileLock(exports);
  return exports;
}

NODE_API_MODULE(mooncake_kv, start)

}  // namespace

}  // namespace mooncake_kv::addon
