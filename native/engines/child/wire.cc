#include "engines/child/wire.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "engines/child/archive.h"

namespace mooncake_kv::child {

namespace {

constexpr size_t BUFFER_BYTES_FIRST = 64 << 10;

Outcome failed() { return errno == EAGAIN || errno == EWOULDBLOCK ? Outcome::timedOut : Outcome::closed; }

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::pair<Descriptor, Descriptor> socketPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw Error("CAPACITY", "socketpair", "", std::strerror(errno), "Raise the limit of open files (ulimit -n).");
  }
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void Wire::limit(std::chrono::milliseconds timeout) {
  const timeval time{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
}

Outcome Wire::send(std::span<const uint8_t> message, std::span<const int> descriptors) {
  alignas(cmsghdr) char beside[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
  if (descriptors.size() > DESCRIPTORS_MAX) return Outcome::closed;
  while (!message.empty()) {
    iovec part{.iov_base = const_cast<uint8_t*>(message.data()), .iov_len = message.size()};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!descriptors.empty()) {
      header.msg_control = beside;
      header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* rights = CMSG_FIRSTHDR(&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return failed();
    }
    // They went with the first bytes.
    descriptors = {};
    message = message.subspan(static_cast<size_t>(sent));
  }
  return Outcome::done;
}

Outcome Wire::receive(std::span<const uint8_t>& payload, std::vector<Descriptor>* descriptors) {
  if (taken_ == filled_) taken_ = filled_ = 0;
  MessageLength length = 0;
  for (;;) {
    const size_t here = filled_ - taken_;
    size_t wanted = sizeof length;
    if (here >= sizeof length) {
      std::memcpy(&length, buffer_.data() + taken_, sizeof length);
      if (length > MESSAGE_BYTES_MAX) return Outcome::closed;
      wanted += length;
    }
    if (here >= wanted && here >= sizeof length) break;
    if (taken_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + taken_, here);
      taken_ = 0;
      filled_ = here;
    }
    if (buffer_.size() < std::max(wanted, BUFFER_BYTES_FIRST)) buffer_.resize(std::max(wanted, BUFFER_BYTES_FIRST));
    if (const Outcome outcome = readSome(descriptors); outcome != Outcome::done) return outcome;
  }
  payload = std::span(buffer_).subspan(taken_ + sizeof length, length);
  taken_ += sizeof length + length;
  return Outcome::done;
}

Outcome Wire::readSome(std::vector<Descriptor>* descriptors) {
  alignas(cmsghdr) char beside[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
  iovec part{.iov_base = buffer_.data() + filled_, .iov_len = buffer_.size() - filled_};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = beside;
  header.msg_controllen = sizeof beside;
  ssize_t read = 0;
  do {
    read = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
  } while (read < 0 && errno == EINTR);
  if (read < 0) return failed();
  for (cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr; rights = CMSG_NXTHDR(&header, rights)) {
    if (rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t index = 0; index < count; index++) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(rights) + index * sizeof number, sizeof number);
      Descriptor descriptor(number);
      if (descriptors != nullptr) descriptors->push_back(std::move(descriptor));
    }
  }
  if (read == 0 || (header.msg_flags & MSG_CTRUNC) != 0) return Outcome::closed;
  filled_ += static_cast<size_t>(read);
  return Outcome::done;
}

}  // namespace mooncake_kv::child
