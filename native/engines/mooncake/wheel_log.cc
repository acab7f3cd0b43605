#include "engines/mooncake/wheel_log.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <iterator>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/clock.h"
#include "core/error.h"

namespace mooncake_kv::mooncake {

namespace {

constexpr int32_t SEVERITY_ERROR = 2;
constexpr int SEVERITY_FATAL = 3;
constexpr size_t TEXT_BYTES_MAX = 2000;
constexpr uint64_t SECOND = 1'000'000'000;

class Lines {
 public:
  void push(LogLine line) {
    std::unique_lock lock(mutex_);
    if (line.severity >= SEVERITY_ERROR) lastError_ = line.text;
    if (!admit(line)) return;
    if (file_ >= 0) {
      const std::string row = std::string(1, "IWEF"[line.severity & 3]) + " " + line.source + " " + line.text + "\n";
      // A log that cannot be written must not stop the store.
      [[maybe_unused]] const ssize_t ignored = write(file_, row.data(), row.size());
      return;
    }
    lines_.push_back(std::move(line));
    if (lines_.size() == 1 && wake_) wake_();
  }

  std::vector<LogLine> take(size_t linesMax) {
    std::lock_guard lock(mutex_);
    const size_t count = std::min(linesMax, lines_.size());
    std::vector<LogLine> taken(std::make_move_iterator(lines_.begin()), std::make_move_iterator(lines_.begin() + static_cast<ptrdiff_t>(count)));
    lines_.erase(lines_.begin(), lines_.begin() + static_cast<ptrdiff_t>(count));
    return taken;
  }

  void wakeWith(std::function<void()> wake) {
    std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
    if (!lines_.empty() && wake_) wake_();
  }

  void sendTo(const std::string& path) {
    int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) {
      throw Error("CONFIGURATION", "logPath", path, std::string("the file cannot be opened: ") + std::strerror(errno),
                  "Name a file in a folder that exists and may be written.");
    }
    std::lock_guard lock(mutex_);
    std::swap(file_, file);
    if (file >= 0) close(file);
  }

  std::string lastError() {
    std::lock_guard lock(mutex_);
    return lastError_;
  }

 private:
  struct Place {
    uint64_t second = 0;
    uint32_t lines = 0;
    uint64_t leftOut = 0;
  };

  bool admit(LogLine& line) {
    Place& place = places_[line.source];
    const uint64_t second = monotonicNanoseconds() / SECOND;
    if (place.second != second) {
      place.second = second;
      place.lines = 0;
    }
    if (++place.lines > LOG_LINES_A_SECOND || (file_ < 0 && lines_.size() >= LOG_LINES_MAX)) {
      place.leftOut++;
      return false;
    }
    if (place.leftOut > 0) line.text += " (" + std::to_string(std::exchange(place.leftOut, 0)) + " lines from here were left out)";
    return true;
  }

  std::mutex mutex_;
  std::deque<LogLine> lines_;
  /** One for each place of the sources that logs: they are few. */
  std::unordered_map<std::string, Place> places_;
  std::function<void()> wake_;
  std::string lastError_;
  int file_ = -1;
};

Lines& lines() {
  static auto* all = new Lines();
  return *all;
}

/**
 * Has the virtual functions of google::LogSink up to glog 0.4, in its order: that class is declared nowhere here, because the wheel
 * brings its library but no header.
 */
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void send(int severity, const char*, const char* baseName, int line, const tm*, const char* message, size_t bytes) {
    std::string_view text(message, std::min(bytes, TEXT_BYTES_MAX));
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    lines().push({severity, std::string(baseName) + ":" + std::to_string(line), std::string(text)});
  }
  virtual void WaitTillSent() {}
};

void* findGlog() {
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        if (std::string_view(info->dlpi_name).find("libglog") == std::string_view::npos) return 0;
        *static_cast<std::string*>(data) = info->dlpi_name;
        return 1;
      },
      &path);
  return path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
}

template <typename Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

bool install() {
  void* glog = findGlog();
  if (glog == nullptr) return false;
  const auto addSink = symbol<void(void*)>(glog, "_ZN6google10AddLogSinkEPNS_7LogSinkE");
  const auto isInitialized = symbol<bool()>(glog, "_ZN6google24glog_internal_namespace_26IsGoogleLoggingInitializedEv");
  const auto initialize = symbol<void(const char*)>(glog, "_ZN6google17InitGoogleLoggingEPKc");
  const auto setDestination = symbol<void(int, const char*)>(glog, "_ZN6google17SetLogDestinationEiPKc");
  auto* threshold = static_cast<int32_t*>(dlsym(glog, "_ZN3fLI21FLAGS_stderrthresholdE"));
  // This signature is what tells the old interface of sinks: since 0.5 another time type stands in it.
  const bool known = dlsym(glog, "_ZN6google7LogSink8ToStringB5cxx11EiPKciPK2tmS2_m") != nullptr;
  if (!known || addSink == nullptr || isInitialized == nullptr || initialize == nullptr || setDestination == nullptr || threshold == nullptr) return false;
  addSink(new Sink());
  // With MC_LOG_DIR the wheel initializes glog itself, and a second time ends the process.
  if (isInitialized() || std::getenv("MC_LOG_DIR") != nullptr) return true;
  for (int severity = 0; severity <= SEVERITY_FATAL; severity++) setDestination(severity, "");
  *threshold = SEVERITY_FATAL;
  // Before this all lines go to stderr, whatever the threshold.
  initialize("mooncake-kv");
  return true;
}

}  // namespace

bool catchWheelLog() {
  static const bool caught = install();
  return caught;
}

std::vector<LogLine> takeWheelLog(size_t linesMax) { return lines().take(linesMax); }
void addLogLine(LogLine line) { lines().push(std::move(line)); }
void wakeForWheelLog(std::function<void()> wake) { lines().wakeWith(std::move(wake)); }
void sendWheelLogTo(const std::string& path) { lines().sendTo(path); }
std::string lastWheelError() { return lines().lastError(); }

}  // namespace mooncake_kv::mooncake
