// What the wheel writes to its log (glog), caught before it reaches the terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mooncake_kv::mooncake {

struct LogLine {
  /** glog's: 0 info, 1 warning, 2 error, 3 fatal (the process ends after it). */
  int32_t severity = 0;
  /** "file:line" of the wheel's sources. */
  std::string source;
  std::string text;
};

/**
 * Puts a sink of ours into the wheel's glog, which must be loaded, and keeps glog away from stderr; once a process. False: this glog
 * is not one that we know, and goes on writing to stderr. With MC_LOG_DIR set the wheel writes its files all the same.
 */
bool catchWheelLog();

/**
 * Takes up to `linesMax` lines. At most LOG_LINES_MAX wait, and one place in the sources gives at most LOG_LINES_A_SECOND of them a
 * second; what is left out is said in the next line from there.
 */
std::vector<LogLine> takeWheelLog(size_t linesMax);
inline constexpr size_t LOG_LINES_MAX = 1024;
inline constexpr uint32_t LOG_LINES_A_SECOND = 5;

/** Adds a line that another process's wheel has logged; bounded as this one's. */
void addLogLine(LogLine line);

/** Called when the first line waits, from any thread of the wheel, so it must neither block nor log. Null: nobody. */
void wakeForWheelLog(std::function<void()> wake);

/** Appends the lines to a file instead of keeping them for `takeWheelLog`; throws Error when it cannot be opened. */
void sendWheelLogTo(const std::string& path);

/** The last error that the wheel logged on any thread, for the text of a failure that comes without one; may be empty. */
std::string lastWheelError();

}  // namespace mooncake_kv::mooncake
