#include "engines/mooncake/master_address.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace mooncake_kv::mooncake {

namespace {

/** 0, or errno. */
int tryConnect(const addrinfo& address, int timeoutMs) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  int error = connect(socket, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd wait{.fd = socket, .events = POLLOUT, .revents = 0};
    socklen_t length = sizeof(error);
    if (poll(&wait, 1, timeoutMs) != 1) {
      error = ETIMEDOUT;
    } else if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = errno;
    }
  }
  close(socket);
  return error;
}

}  // namespace

std::string whyUnreachable(const std::string& address, int timeoutMs) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || address.find("://") != std::string::npos) return "";
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (failure != 0) return std::string("the name does not resolve: ") + gai_strerror(failure);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    error = tryConnect(*one, timeoutMs);
    if (error == 0) return "";
  }
  return std::strerror(error);
}

}  // namespace mooncake_kv::mooncake
