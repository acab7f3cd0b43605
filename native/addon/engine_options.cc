#include "addon/engine_options.h"

#include <memory>
#include <string>
#include <utility>

namespace mooncake_kv::addon {

namespace {

constexpr int64_t IO_THREADS_MAX = 256;

uint64_t bytes(const Options& options, const char* name, int64_t min) {
  return static_cast<uint64_t>(options.integer(name, min, BYTES_LAST));
}
uint32_t threads(const Options& options, const char* name) {
  return static_cast<uint32_t>(options.integer(name, 1, IO_THREADS_MAX));
}

LocalOptions readLocal(const Options& options) {
  LocalOptions made;
  made.poolName = options.string("poolName");
  made.bytesMax = bytes(options, "bytesMax", 1);
  made.verifyChecksums = options.boolean("verifyChecksums");
  made.ioThreads = threads(options, "ioThreads");
  return made;
}

Verify verify(const Options& options) {
  const std::string mode = options.string("verify");
  if (mode == "off") return Verify::off;
  if (mode == "when_present") return Verify::whenPresent;
  if (mode == "require") return Verify::require;
  throw invalidValue("options.verify", "\"" + mode + "\"", "there is no such mode", "Use \"off\", \"when_present\" or \"require\".");
}

MooncakeOptions readMooncake(const Options& options) {
  const auto count = [&](const char* name) { return static_cast<uint32_t>(options.integer(name, 0, INT32_LAST)); };
  MooncakeOptions made;
  made.pythonExecutable = options.string("pythonExecutable");
  made.pythonLibrary = options.string("pythonLibrary");
  made.localHostname = options.string("localHostname");
  made.metadataServer = options.string("metadataServer");
  made.globalSegmentBytes = bytes(options, "globalSegmentBytes", 0);
  made.localBufferBytes = bytes(options, "localBufferBytes", 0);
  made.protocol = options.string("protocol");
  made.deviceName = options.string("deviceName");
  made.masterServerAddress = options.string("masterServerAddress");
  made.preferredSegment = options.string("preferredSegment");
  made.tenantId = options.string("tenantId");
  made.enableOffload = options.boolean("enableOffload");
  made.groupSemantics = options.boolean("groupSemantics");
  made.reportTiers = options.boolean("reportTiers");
  made.verify = verify(options);
  made.checkRemovals = options.boolean("checkRemovals");
  made.keysPerCallMax = count("keysPerCallMax");
  made.bytesPerCallMax = bytes(options, "bytesPerCallMax", 0);
  made.transferQueueMax = count("transferQueueMax");
  made.logPath = options.string("logPath");
  made.existsThreads = threads(options, "existsThreads");
  made.getThreads = threads(options, "getThreads");
  made.putThreads = threads(options, "putThreads");
  return made;
}

ChildOptions readChild(const Options& options) {
  ChildOptions made;
  made.executable = options.string("executable");
  const Napi::Array arguments = options.array("arguments");
  for (uint32_t i = 0; i < arguments.Length(); i++) {
    made.arguments.push_back(readString(arguments.Env(), arguments.Get(i), "options.arguments[" + std::to_string(i) + "]"));
  }
  const Options inner = options.inner("inner");
  if (inner.string("kind") == "child") {
    throw invalidValue("options.inner.kind", "\"child\"", "a child opens its engine itself", "Name the engine that the child shall open.");
  }
  made.inner = std::make_shared<const EngineOptions>(readEngineOptions(inner));
  made.existsThreads = threads(options, "existsThreads");
  made.getThreads = threads(options, "getThreads");
  made.putThreads = threads(options, "putThreads");
  return made;
}

}  // namespace

EngineOptions readEngineOptions(const Options& options) {
  const std::string kind = options.string("kind");
  if (kind == "local") return readLocal(options);
  if (kind == "mooncake") return readMooncake(options);
  if (kind == "child") return readChild(options);
  throw Error("UNSUPPORTED", "kind", "\"" + kind + "\"", "the addon has no engine of this kind", "Use \"local\", \"mooncake\" or \"child\".");
}

}  // namespace mooncake_kv::addon
