#include "core/memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/populate.h"

namespace mooncake_kv {

namespace {

std::atomic<uint64_t> lastNumber{0};

Error refused(size_t bytes, const char* call, int error) {
  return Error("CAPACITY", "bytes", std::to_string(bytes), std::string(call) + " failed: " + std::strerror(error),
               "Ask for fewer bytes, or raise the memory limit of this process.");
}

}  // namespace

Memory::Memory(Kind kind, void* data, size_t bytes, int fileDescriptor, std::function<void()> lastHoldDropped)
    : number_(lastNumber.fetch_add(1, std::memory_order_relaxed) + 1),
      kind_(kind),
      data_(static_cast<uint8_t*>(data)),
      bytes_(bytes),
      fileDescriptor_(fileDescriptor),
      lastHoldDropped_(std::move(lastHoldDropped)) {}

Memory::~Memory() {
  if (kind_ == Kind::memfd) {
    if (populator_.joinable()) {
      populator_.request_stop();
      populator_.join();
    }
    munmap(data_, bytes_);
    close(fileDescriptor_);
  }
  if (lastHoldDropped_) lastHoldDropped_();
}

std::shared_ptr<Memory> Memory::createMemfd(size_t bytes) {
  const int descriptor = memfd_create("mooncake-kv", MFD_CLOEXEC);
  if (descriptor < 0) throw refused(bytes, "memfd_create", errno);
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(descriptor);
    throw refused(bytes, "ftruncate", error);
  }
  return mapMemfd(descriptor, bytes);
}

std::shared_ptr<Memory> Memory::openMemfd(int fileDescriptor, size_t bytes) {
  struct stat found {};
  // Past its end a map raises SIGBUS.
  if (bytes == 0 || fstat(fileDescriptor, &found) != 0 || static_cast<uint64_t>(found.st_size) < bytes) {
    close(fileDescriptor);
    throw invalidValue("bytes", static_cast<int64_t>(bytes), "the descriptor has no such memory behind it", "Pass a memfd and its size.");
  }
  std::shared_ptr<Memory> memory = mapMemfd(fileDescriptor, bytes);
  madvise(memory->data(), bytes, MADV_DONTFORK);
  // A crash would write all of it into the core file first, and whoever waits for the end of this process would wait for that.
  madvise(memory->data(), bytes, MADV_DONTDUMP);
  return memory;
}

std::shared_ptr<Memory> Memory::mapMemfd(int descriptor, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    close(descriptor);
    throw refused(bytes, "mmap", error);
  }
  // Advice only: kernels without huge pages for shared memory refuse it, which costs speed and nothing else.
  madvise(data, bytes, MADV_HUGEPAGE);
  std::shared_ptr<Memory> memory(new Memory(Kind::memfd, data, bytes, descriptor, nullptr));
  memory->populateAll();
  return memory;
}

void Memory::populateAll() {
  const size_t first = std::min(bytes_, POPULATED_AT_ONCE_BYTES);
  // Where the system has no memory now, pages come with their first use, as they would anyway.
  if (!populate(data_, first) || first == bytes_) return;
  try {
    populator_ = std::jthread([data = data_ + first, bytes = bytes_ - first](const std::stop_token& stop) { populate(data, bytes, stop); });
  } catch (const std::system_error&) {
    // No thread to be had: likewise.
  }
}

std::shared_ptr<Memory> Memory::adoptHost(void* data, size_t bytes, std::function<void()> lastHoldDropped) {
  return std::shared_ptr<Memory>(new Memory(Kind::host, data, bytes, -1, std::move(lastHoldDropped)));
}

bool Memory::enter() {
  if (kind_ == Kind::memfd) return true;
  // Acquire pairs with the release in `closeAndWait`; counting first and looking after leaves no gap between the two.
  if ((inside_.fetch_add(1, std::memory_order_acq_rel) & CLOSED) == 0) return true;
  leave();
  return false;
}

void Memory::leave() {
  if (kind_ == Kind::memfd) return;
  // Release pairs with the acquire load in `closeAndWait`: all that was done inside happens before the owner's end.
  if ((inside_.fetch_sub(1, std::memory_order_acq_rel) & CLOSED) == 0) return;
  std::lock_guard lock(mutex_);
  left_.notify_all();
}

void Memory::closeAndWait() {
  inside_.fetch_or(CLOSED, std::memory_order_acq_rel);
  std::unique_lock lock(mutex_);
  left_.wait(lock, [&] { return inside_.load(std::memory_order_acquire) == CLOSED; });
}

}  // namespace mooncake_kv
