// wheelLogWake, wheelLogTake, wheelHookExit.
#include "addon/arguments.h"
#include "addon/subjects.h"
#include "engines/mooncake/exit_hook.h"
#include "engines/mooncake/wheel_log.h"

namespace mooncake_kv::addon {

namespace {

constexpr int64_t LINES_A_CALL_MAX = 4096;

napi_value wheelLogWake(const Arguments<1>& arguments) {
  const int32_t wakeId = arguments.int32(0, "wakeId");
  mooncake::wakeForWheelLog(wakeId < 0 ? std::function<void()>() : [wakeId] { wake(wakeId); });
  return nullptr;
}

napi_value wheelLogTake(const Arguments<1>& arguments) {
  const napi_env env = arguments.env;
  const int64_t linesMax = arguments.integer(0, "linesMax", 1, LINES_A_CALL_MAX);
  const std::vector<mooncake::LogLine> lines = mooncake::takeWheelLog(static_cast<size_t>(linesMax));
  Napi::Array result = Napi::Array::New(env, lines.size());
  for (uint32_t index = 0; index < lines.size(); index++) {
    Napi::Object line = Napi::Object::New(env);
    line.Set("severity", lines[index].severity);
    line.Set("source", lines[index].source);
    line.Set("text", lines[index].text);
    result.Set(index, line);
  }
  return result;
}

napi_value wheelHookExit(const Arguments<1>&) {
  mooncake::hookExit(true);
  return nullptr;
}

}  // namespace

void defineWheelLog(Napi::Object exports) {
  define<1, wheelLogWake>(exports, "wheelLogWake");
  define<1, wheelLogTake>(exports, "wheelLogTake");
  define<1, wheelHookExit>(exports, "wheelHookExit");
}

}  // namespace mooncake_kv::addon
