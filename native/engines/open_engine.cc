#include "engines/open_engine.h"

#include <string>
#include <utility>
#include <variant>

#include "core/error.h"
#include "engines/child/child_engine.h"
#include "engines/local/local_engine.h"
#include "engines/mooncake/open_mooncake.h"

namespace mooncake_kv {

namespace {

/** From twice as much on, a copy is split among the I/O threads. */
constexpr uint64_t LOCAL_PART_BYTES = 1 << 20;

EngineRecipe recipe(const LocalOptions& options) {
  if (options.poolName.empty()) {
    throw invalidValue("poolName", "\"\"", "a pool has a name", "Give engines that share a pool the same name.");
  }
  if (options.bytesMax == 0) throw invalidValue("bytesMax", "0", "a pool has room for something", "Pass the pool's size in bytes.");
  if (options.ioThreads == 0) throw invalidValue("ioThreads", "0", "somebody has to copy", "Give at least one I/O thread.");
  return {.traits = {.lanes = {.shared = options.ioThreads}, .partBytesMin = LOCAL_PART_BYTES}, .make = [options] {
            return std::make_shared<local::LocalEngine>(local::openPool(options.poolName, options.bytesMax), options.verifyChecksums);
          }};
}

EngineRecipe recipe(const MooncakeOptions& options) { return mooncake::recipe(options); }

EngineRecipe recipe(const ChildOptions& options) {
  if (options.inner == nullptr || std::holds_alternative<ChildOptions>(*options.inner)) {
    throw invalidValue("inner", "", "a child opens an engine itself", "Name the engine that the child shall open.");
  }
  if (options.executable.empty()) throw invalidValue("executable", "\"\"", "there is no program", "Pass the path of mooncake-kv-engine.");
  const LaneThreads lanes{.exists = options.existsThreads, .get = options.getThreads, .put = options.putThreads, .control = 1};
  if (child::linksOf(options) > child::Wire::DESCRIPTORS_MAX) {
    throw invalidValue("existsThreads + getThreads + putThreads", child::linksOf(options), "a child serves no more than 249 threads", "Ask for fewer.");
  }
  // Its other options are wrong or right in the child, which may find other libraries and settings.
  const uint64_t partBytesMin = std::holds_alternative<LocalOptions>(*options.inner) ? LOCAL_PART_BYTES : 0;
  return {.traits = {.lanes = lanes, .mayHang = true, .partBytesMin = partBytesMin},
          .make = [options] { return std::make_shared<child::ChildEngine>(options); }};
}

}  // namespace

EngineRecipe engineRecipe(const EngineOptions& options) {
  return std::visit([](const auto& one) { return recipe(one); }, options);
}

std::shared_ptr<EngineHost> openEngine(const EngineOptions& options, std::function<void()> stateChanged) {
  EngineRecipe made = engineRecipe(options);
  return EngineHost::open({.traits = made.traits, .make = std::move(made.make), .stateChanged = std::move(stateChanged)});
}

}  // namespace mooncake_kv
