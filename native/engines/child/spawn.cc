#include "engines/child/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "core/error.h"

namespace mooncake_kv::child {

namespace {

/** Above those that the child is given by number, so that none is overwritten before it is copied. */
constexpr int FIRST_OF_OWN = 10;

Descriptor above(const Descriptor& descriptor) { return Descriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, FIRST_OF_OWN)); }

Error refused(const std::string& executable, int error) {
  const bool absent = error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR;
  return Error(absent ? "CONFIGURATION" : "UNREACHABLE", "executable", executable,
               std::string("the engine's program does not start: ") + strerror(error),
               absent ? "Build it with `npm run build:native`." : "See that the system allows another process of this size.");
}

}  // namespace

pid_t spawn(const ChildOptions& options, const Descriptor& control, const Descriptor& output) {
  const Descriptor controlCopy = above(control);
  const Descriptor outputCopy = above(output);
  if (controlCopy.get() < 0 || outputCopy.get() < 0) throw refused(options.executable, errno);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, outputCopy.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, outputCopy.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, controlCopy.get(), CONTROL_DESCRIPTOR);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::vector<char*> arguments{const_cast<char*>(options.executable.c_str())};
  for (const std::string& argument : options.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);

  pid_t pid = 0;
  const int error = posix_spawn(&pid, options.executable.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw refused(options.executable, error);
  return pid;
}

std::string endingText(int status) {
  if (WIFSIGNALED(status)) {
    return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace mooncake_kv::child
