#include "engines/open_engine.h"

#include "core/error.h"
#include "engines/local/local_engine.h"

namespace mooncake_kv {

std::unique_ptr<Engine> openEngine(const EngineOptions& options) {
  if (options.kind != "local") {
    throw Error("UNSUPPORTED", "kind", "\"" + options.kind + "\"", "the addon has no engine of this kind", "Use \"local\".");
  }
  if (options.poolName.empty()) {
    throw invalidValue("poolName", "\"\"", "a pool has a name", "Give engines that share a pool the same name.");
  }
  if (options.bytesMax == 0) throw invalidValue("bytesMax", "0", "a pool has room for something", "Pass the pool's size in bytes.");
  return std::make_unique<local::LocalEngine>(local::openPool(options.poolName, options.bytesMax), options.verifyChecksums);
}

}  // namespace mooncake_kv
