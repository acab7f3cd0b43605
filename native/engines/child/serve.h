// The engine's process itself.
#pragma once

namespace mooncake_kv::child {

/**
 * Opens the engine that the other end of the socket asks for and serves it until that end is closed. Returns the exit code, or does
 * not return: what hangs must not keep the process.
 */
int serveEngine(int controlDescriptor);

}  // namespace mooncake_kv::child
