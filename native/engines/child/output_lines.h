// What the engine's process writes to its standard output and error, as lines of the log.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engines/mooncake/wheel_log.h"

namespace mooncake_kv::child {

/**
 * Cuts output into log lines: a line of our own ("W file:line text") or of glog's ("W0102 ... file:line] text") has its severity and
 * place; anything else, a traceback above all, is one warning as long as it goes on without pause. One thread.
 */
class OutputLines {
 public:
  using Take = std::function<void(mooncake::LogLine line)>;
  /** What is longer is cut. */
  static constexpr size_t LINE_BYTES_MAX = 4096;
  static constexpr size_t TEXT_BYTES_MAX = 4000;
  /** Where a line came from that does not say so. */
  static constexpr const char* NAMELESS = "engine process";

  explicit OutputLines(Take take) : take_(std::move(take)) {}

  void append(std::string_view bytes);
  /** There was a pause, or the end. */
  void flush();
  bool isHolding() const { return !text_.empty() || !line_.empty(); }

 private:
  void endLine();
  void endText();

  const Take take_;
  std::string line_;
  /** Lines without a place so far. */
  std::string text_;
};

}  // namespace mooncake_kv::child
