// Starts the engine's program.
#pragma once

#include <sys/types.h>

#include <string>

#include "engines/child/wire.h"
#include "engines/engine_options.h"

namespace mooncake_kv::child {

/** Where the program finds its control socket. */
inline constexpr int CONTROL_DESCRIPTOR = 3;

/**
 * Starts it with `control` as CONTROL_DESCRIPTOR and `output` as standard output and error; returns its pid. It is in a process group
 * of its own, so that Ctrl-C ends this process first, and has no signal blocked or ignored. Throws Error.
 */
pid_t spawn(const ChildOptions& options, const Descriptor& control, const Descriptor& output);

/** "was ended by signal 11 (Segmentation fault)", of what waitpid says. */
std::string endingText(int status);

}  // namespace mooncake_kv::child
