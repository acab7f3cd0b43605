// The one interpreter of this process.
#pragma once

#include <string>

namespace mooncake_kv::python {

/**
 * Loads `library` and starts the interpreter, as `executable` (so that its virtual environment's packages are found), on a thread
 * of its own, without signal handlers; the lock is free when this returns. The first call takes some 30 ms, later ones nothing.
 * The interpreter is never ended: doing so from another thread than its first hangs. Throws Error CONFIGURATION. Any thread.
 */
void startPython(const std::string& executable, const std::string& library);

}  // namespace mooncake_kv::python
