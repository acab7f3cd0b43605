// engineOpen, engineClose, engineStatistics, engineCorrupt, engineKeys, engineRemovePrefix.
#include "addon/engines.h"

#include <chrono>
#include <memory>

#include "addon/arguments.h"
#include "addon/subjects.h"
#include "engines/open_engine.h"

namespace mooncake_kv::addon {

Registry<EngineHost>& engines() {
  static auto* registry = new Registry<EngineHost>("engineId");
  return *registry;
}

namespace {

constexpr int64_t IO_THREADS_MAX = 256;
constexpr int64_t TIMEOUT_MS_MAX = 24 * 60 * 60 * 1000;

napi_value engineOpen(const Arguments<1>& arguments) {
  const Options options(arguments.env, arguments[0]);
  EngineOptions made;
  made.kind = options.string("kind");
  made.poolName = options.string("poolName");
  made.bytesMax = static_cast<uint64_t>(options.integer("bytesMax", 1, BYTES_LAST));
  made.verifyChecksums = options.boolean("verifyChecksums");
  const auto ioThreads = static_cast<uint32_t>(options.integer("ioThreads", 1, IO_THREADS_MAX));
  return number(arguments.env, engines().add(std::make_shared<EngineHost>(openEngine(made), ioThreads)));
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
  const EngineStatistics read = host->engine().statistics();
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
  set("batchesInFlight", host->running());
  return statistics;
}

napi_value engineCorrupt(const Arguments<3>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  const std::string key = readString(arguments.env, arguments[1], "key");
  const int64_t byteOffset = arguments.integer(2, "byteOffset", 0, BYTES_LAST);
  return boolean(arguments.env, host->engine().corrupt(key, static_cast<uint64_t>(byteOffset)));
}

napi_value engineKeys(const Arguments<3>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  const std::string prefix = readString(arguments.env, arguments[1], "prefix");
  const int64_t limit = arguments.integer(2, "limit", 0, INT32_LAST);
  const std::vector<std::string> keys = host->engine().keys(prefix, static_cast<size_t>(limit));
  Napi::Array result = Napi::Array::New(arguments.env, keys.size());
  for (uint32_t i = 0; i < keys.size(); i++) result.Set(i, keys[i]);
  return result;
}

napi_value engineRemovePrefix(const Arguments<2>& arguments) {
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  const std::string prefix = readString(arguments.env, arguments[1], "prefix");
  return number(arguments.env, static_cast<double>(host->engine().removePrefix(prefix)));
}

}  // namespace

void defineEngines(Napi::Object exports) {
  define<1, engineOpen>(exports, "engineOpen");
  define<2, engineClose>(exports, "engineClose");
  define<1, engineStatistics>(exports, "engineStatistics");
  define<3, engineCorrupt>(exports, "engineCorrupt");
  define<3, engineKeys>(exports, "engineKeys");
  define<2, engineRemovePrefix>(exports, "engineRemovePrefix");
}

}  // namespace mooncake_kv::addon
