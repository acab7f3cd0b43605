// fileLock.
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "addon/arguments.h"
#include "addon/subjects.h"

namespace mooncake_kv::addon {

namespace {

napi_value fileLock(const Arguments<2>& arguments) {
  const int32_t file = arguments.int32(0, "fileDescriptor");
  const bool shared = readBoolean(arguments.env, arguments[1], "shared");
  for (;;) {
    if (flock(file, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return boolean(arguments.env, true);
    if (errno == EWOULDBLOCK) return boolean(arguments.env, false);
    if (errno != EINTR) {
      throw Error("UNSUPPORTED", "fileDescriptor", std::to_string(file), std::string("the file cannot be locked: ") + std::strerror(errno),
                  "Use a folder on a file system of this machine.");
    }
  }
}

}  // namespace

void defineFileLock(Napi::Object exports) { define<2, fileLock>(exports, "fileLock"); }

}  // namespace mooncake_kv::addon
