// Whether the master can be reached at all.
#pragma once

#include <string>

namespace mooncake_kv::mooncake {

/**
 * Connects to `host:port` and hangs up, within about `timeoutMs` an address: the wheel's own set-up tries for 90 s and holds the
 * interpreter's lock meanwhile. Returns why not, or an empty text; that too for addresses of other forms (etcd://...).
 */
std::string whyUnreachable(const std::string& address, int timeoutMs);

}  // namespace mooncake_kv::mooncake
