#include "engines/mooncake/local_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace mooncake_kv::mooncake {

namespace {

/** The source address of packets to `to`; empty when no route leads there. Connecting a datagram socket sends nothing. */
std::string sourceAddress(const addrinfo& to) {
  const int socket = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST] = "";
  // Numbers only, and without the zone of a link-local address, which names nothing elsewhere.
  const bool found = connect(socket, to.ai_addr, to.ai_addrlen) == 0 && getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                     getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) == 0;
  close(socket);
  const std::string address = found ? text : "";
  return address.substr(0, address.find('%'));
}

std::string addressTowards(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const std::string address = sourceAddress(*one);
    if (!address.empty()) return address;
  }
  return "";
}

/** Of `host:port` or `[host]:port`; empty for other forms (etcd://...). */
std::string addressTowardsMaster(const std::string& master) {
  const size_t colon = master.rfind(':');
  if (colon == std::string::npos || master.find("://") != std::string::npos) return "";
  std::string host = master.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return addressTowards(host, master.substr(colon + 1), 0);
}

}  // namespace

std::string localAddress(const std::string& masterAddress) {
  // Two public name servers, as vLLM asks: any outside address would do, and neither need be reachable.
  for (const char* outside : {"8.8.8.8", "2001:4860:4860::8888"}) {
    const std::string address = addressTowards(outside, "80", AI_NUMERICHOST);
    if (!address.empty()) return address;
  }
  const std::string address = addressTowardsMaster(masterAddress);
  return address.empty() ? "127.0.0.1" : address;
}

}  // namespace mooncake_kv::mooncake
