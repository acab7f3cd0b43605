// mooncake-kv-engine: an engine in a process of its own. Started by the addon; the socket is descriptor 3.
#include <sys/socket.h>

#include <cstdio>

#include "engines/child/serve.h"
#include "engines/child/spawn.h"

int main() {
  using mooncake_kv::child::CONTROL_DESCRIPTOR;
  int kind = 0;
  socklen_t bytes = sizeof kind;
  if (getsockopt(CONTROL_DESCRIPTOR, SOL_SOCKET, SO_TYPE, &kind, &bytes) != 0) {
    std::fputs("mooncake-kv-engine is started by mooncake-kv, with \"engine_process\": \"child\" in kv_connector_extra_config.\n", stderr);
    return 64;
  }
  return mooncake_kv::child::serveEngine(CONTROL_DESCRIPTOR);
}
