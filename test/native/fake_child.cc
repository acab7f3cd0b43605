// What an engine's process must not be, for tests: `fake_child DIFFERENCE` answers the hello with the protocol's number and so much
// more, opens no engine and never ends by itself, whatever it is told.
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <vector>

#include "engines/child/messages.h"
#include "engines/child/spawn.h"
#include "engines/child/wire.h"

using namespace mooncake_kv::child;

int main(int count, char** arguments) {
  if (count != 2) return 1;
  Wire wire{Descriptor(CONTROL_DESCRIPTOR)};
  std::span<const uint8_t> message;
  std::vector<Descriptor> links;
  if (wire.receive(message, &links) != Outcome::done) return 1;
  std::vector<uint8_t> bytes;
  Writer writer(bytes);
  writer(Kind::welcome, static_cast<uint32_t>(PROTOCOL + static_cast<uint32_t>(std::atoi(arguments[1]))));
  if (wire.send(writer.finish()) != Outcome::done) return 1;
  for (;;) pause();
}
