// A process with an engine in a child, for the test that kills it: `child_engine_parent PROGRAM` writes the child's pid to its standard
// output as bytes, and waits.
#include <unistd.h>

#include <memory>

#include "engines/child/child_engine.h"

using namespace mooncake_kv;

int main(int count, char** arguments) {
  if (count != 2) return 1;
  ChildOptions options;
  options.executable = arguments[1];
  options.inner = std::make_shared<const EngineOptions>(LocalOptions{.poolName = "parent", .bytesMax = 1 << 20, .ioThreads = 1});
  child::ChildEngine engine(options);
  engine.open([](const std::string&) {});
  const pid_t pid = engine.pid();
  if (write(STDOUT_FILENO, &pid, sizeof pid) != ssize_t{sizeof pid}) return 1;
  for (;;) pause();
}
