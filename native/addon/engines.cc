// engineOpen, engineUseKeySpace, engineState, engineClose, engineStatistics, engineCorrupt, engineKeys, engineRemovePrefix.
#include "addon/engines.h"

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "addon/arguments.h"
#include "addon/engine_calls.h"
#include "addon/engine_options.h"
#include "addon/subjects.h"
#include "core/key_space.h"
#include "engines/open_engine.h"

namespace mooncake_kv::addon {

Registry<EngineHost>& engines() {
  static auto* registry = new Registry<EngineHost>("engineId");
  return *registry;
}

namespace {

constexpr int64_t TIMEOUT_MS_MAX = 24 * 60 * 60 * 1000;

/** The numbers of EngineState. */
constexpr const char* STATE_NAMES[] = {"opening", "open", "down", "closed", "failed"};

napi_value engineOpen(const Arguments<1>& arguments) {
  const Options options(arguments.env, arguments[0]);
  const EngineOptions made = readEngineOptions(options);
  std::function<void()> stateChanged;
  if (options.has("stateWakeId")) stateChanged = [wakeId = options.id("stateWakeId")] { wake(wakeId); };
  return number(arguments.env, engines().add(openEngine(made, std::move(stateChanged))));
}

napi_value engineUseKeySpace(const Arguments<2>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  const std::shared_ptr<KeySpace> keySpace = keySpaces().require(arguments.int32(1, "keySpaceId"));
  host->useMemory(keySpace->blockMemories(), keySpace->valueBytesMax());
  return nullptr;
}

napi_value engineState(const Arguments<1>& arguments) {
  const napi_env env = arguments.env;
  const EngineHost::Status status = engines().require(arguments.int32(0, "engineId"))->status();
  Napi::Object result = Napi::Object::New(env);
  result.Set("state", STATE_NAMES[static_cast<size_t>(status.state)]);
  result.Set("reopenings", status.reopenings);
  result.Set("hungCalls", status.hungCalls);
  result.Set("hungOpens", status.hungOpens);
  result.Set("transitRefusals", static_cast<double>(status.transitRefusals));
  result.Set("callsInFlight", status.callsInFlight);
  if (!status.error.has_value()) {
    result.Set("error", Napi::Env(env).Null());
    return result;
  }
  Napi::Object error = Napi::Object::New(env);
  error.Set("code", status.error->code);
  error.Set("field", status.error->field);
  error.Set("problem", status.error->problem);
  error.Set("remedy", status.error->remedy);
  result.Set("error", error);
  return result;
}

/** The engine of a host that never hangs, for calls that are made at once. */
std::shared_ptr<Engine> engineAtHand(const Arguments<3>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  if (host->traits().mayHang) {
    throw Error("UNSUPPORTED", "engineId", "", "calls of this engine may hang, and this one would hold up JavaScript", "Use engineCall.");
  }
  const std::shared_ptr<EngineConnection> connection = host->connection();
  if (connection == nullptr) throw Error("CLOSED", "engineId", "", "the engine was closed", "Use it before engineClose only.");
  return connection->engine;
}

napi_value engineClose(const Arguments<2>& arguments) {
  const int32_t engineId = arguments.int32(0, "engineId");
  const int64_t timeoutMs = arguments.integer(1, "timeoutMs", 0, TIMEOUT_MS_MAX);
  const std::shared_ptr<EngineHost> host = engines().find(engineId);
  const uint32_t left = host == nullptr ? 0 : host->close(std::chrono::milliseconds(timeoutMs));
  if (left == 0) engines().remove(engineId);
  return number(arguments.env, left);
}

napi_value engineStatistics(const Arguments<1>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  const EngineStatistics read = host->statistics();
  const EngineHost::Status status = host->status();
  Napi::Object statistics = Napi::Object::New(arguments.env);
  const auto set = [&](const char* name, uint64_t value) { statistics.Set(name, static_cast<double>(value)); };
  set("bytesMax", read.bytesMax);
  set("bytesUsed", read.bytesUsed);
  set("keys", read.keys);
  set("evictions", read.evictions);
  set("puts", read.puts);
  set("putRefusals", read.putRefusals);
  set("gets", read.gets);
  set("getMisses", read.getMisses);
  set("batchesInFlight", status.batchesInFlight);
  set("reopenings", status.reopenings);
  set("hungCalls", status.hungCalls);
  statistics.Set("state", STATE_NAMES[static_cast<size_t>(status.state)]);
  return statistics;
}

napi_value engineCorrupt(const Arguments<3>& arguments) {
  const std::shared_ptr<Engine> engine = engineAtHand(arguments);
  const std::string key = readString(arguments.env, arguments[1], "key");
  const int64_t byteOffset = arguments.integer(2, "byteOffset", 0, BYTES_LAST);
  return boolean(arguments.env, engine->corrupt(key, static_cast<uint64_t>(byteOffset)));
}

napi_value engineKeys(const Arguments<3>& arguments) {
  const std::shared_ptr<Engine> engine = engineAtHand(arguments);
  const std::string prefix = readString(arguments.env, arguments[1], "prefix");
  const auto limit = static_cast<uint64_t>(arguments.integer(2, "limit", 0, INT32_LAST));
  return keysToJavaScript(arguments.env, engine->control({.operation = ControlOperation::keys, .key = prefix, .limit = limit}).keys);
}

napi_value engineRemovePrefix(const Arguments<3>& arguments) {
  const std::shared_ptr<Engine> engine = engineAtHand(arguments);
  const std::string prefix = readString(arguments.env, arguments[1], "prefix");
  return number(arguments.env, static_cast<double>(engine->control({.operation = ControlOperation::removePrefix, .key = prefix}).count));
}

}  // namespace

void defineEngines(Napi::Object exports) {
  define<1, engineOpen>(exports, "engineOpen");
  define<2, engineUseKeySpace>(exports, "engineUseKeySpace");
  define<1, engineState>(exports, "engineState");
  define<2, engineClose>(exports, "engineClose");
  define<1, engineStatistics>(exports, "engineStatistics");
  define<3, engineCorrupt>(exports, "engineCorrupt");
  define<3, engineKeys>(exports, "engineKeys");
  define<3, engineRemovePrefix>(exports, "engineRemovePrefix");
}

}  // namespace mooncake_kv::addon
