// The address under which other hosts reach this one.
#pragma once

#include <string>

namespace mooncake_kv::mooncake {

/**
 * As vLLM's get_ip: the source address that the routing table gives to packets to an outside address, IPv4 first; nothing is sent.
 * A host without a way out: its address on the way to the master (`host:port`), else 127.0.0.1; vLLM says 0.0.0.0 there.
 */
std::string localAddress(const std::string& masterAddress);

}  // namespace mooncake_kv::mooncake
