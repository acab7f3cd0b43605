#include "engines/mooncake/open_mooncake.h"

#include <cstdlib>
#include <memory>
#include <string>

#include "core/error.h"
#include "engines/mooncake/mooncake_engine.h"
#include "engines/mooncake/wheel_log.h"

namespace mooncake_kv::mooncake {

namespace {

/** A call for twice as many keys takes longer than two at a time of half of them. */
constexpr uint32_t PART_KEYS = 256;

void requireText(const char* field, const std::string& value) {
  if (value.empty()) throw invalidValue(field, "\"\"", "the store needs it", "Give it a value.");
}

/** The wheel reads them when it is imported or set up; a value that somebody has set wins. */
void setVariables(const MooncakeOptions& options) {
  const auto setDefault = [](const char* name, const char* value) { setenv(name, value, 0); };
  // Above 1024 transfers at a time its TCP transport hangs for a minute and then fails every later call to that peer.
  setDefault("MC_TCP_MAX_QUEUED_TRANSFERS_PER_PEER", "32768");
  // 4 by default. Each connection waits for an answer to each piece (call_plan.cc), which a network takes its time for.
  setDefault("MC_TCP_LANES_PER_PEER", "8");
  // 20 attempts of 4.5 s each, all under the interpreter's lock. Some are needed: a port of its own may be taken.
  setDefault("MC_STORE_CLIENT_SETUP_RETRIES", "3");
  // 30 s by default, for which a transfer to a peer that hangs keeps a thread.
  setDefault("MC_TCP_PROGRESS_TIMEOUT_SEC", "10");
  // 30 s by default; a master that hangs is to be noticed sooner. Reads from a disk get more.
  setDefault("MC_RPC_TIMEOUT_MS", options.enableOffload ? "10000" : "3000");
}

}  // namespace

EngineRecipe recipe(const MooncakeOptions& options) {
  requireText("pythonLibrary", options.pythonLibrary);
  requireText("metadataServer", options.metadataServer);
  requireText("masterServerAddress", options.masterServerAddress);
  if (options.protocol != "tcp" && options.protocol != "rdma") {
    throw invalidValue("protocol", "\"" + options.protocol + "\"", "the store has no such transport", "Use rdma or tcp.");
  }
  if (options.localBufferBytes == 0) throw invalidValue("localBufferBytes", "0", "the store needs a buffer of its own", "Give it some MiB.");
  if (!options.logPath.empty()) sendWheelLogTo(options.logPath);
  setVariables(options);
  const LaneThreads lanes{.exists = options.existsThreads, .get = options.getThreads, .put = options.putThreads, .control = 1};
  const EngineTraits traits{.lanes = lanes, .mayHang = true, .partKeysMin = PART_KEYS, .spins = Store::spins(options)};
  return {.traits = traits, .make = [options, parked = std::make_shared<Parked>(), refused = std::make_shared<RefusedKeys>()] {
            return std::make_shared<MooncakeEngine>(options, parked, WHEEL_GIVES_UP_AFTER, refused);
          }};
}

}  // namespace mooncake_kv::mooncake
