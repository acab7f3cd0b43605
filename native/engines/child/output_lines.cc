#include "engines/child/output_lines.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

namespace mooncake_kv::child {

namespace {

using mooncake::LogLine;

constexpr std::string_view SEVERITIES = "IWEF";
constexpr int32_t WARNING = 1;

bool isPlace(std::string_view word) {
  const size_t colon = word.rfind(':');
  return colon != std::string_view::npos && colon > 0 && colon + 1 < word.size() &&
         std::all_of(word.begin() + static_cast<ptrdiff_t>(colon) + 1, word.end(), [](unsigned char c) { return std::isdigit(c); });
}

std::optional<LogLine> placed(std::string_view line) {
  if (line.size() < 3) return std::nullopt;
  const size_t severity = SEVERITIES.find(line[0]);
  if (severity == std::string_view::npos) return std::nullopt;
  std::string_view place, text;
  if (line[1] == ' ') {
    const size_t end = line.find(' ', 2);
    place = line.substr(2, end == std::string_view::npos ? end : end - 2);
    text = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  } else if (std::isdigit(static_cast<unsigned char>(line[1]))) {
    const size_t end = line.find("] ");
    if (end == std::string_view::npos) return std::nullopt;
    const size_t start = line.rfind(' ', end);
    if (start == std::string_view::npos) return std::nullopt;
    place = line.substr(start + 1, end - start - 1);
    text = line.substr(end + 2);
  }
  if (!isPlace(place)) return std::nullopt;
  return LogLine{static_cast<int32_t>(severity), std::string(place), std::string(text)};
}

}  // namespace

void OutputLines::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    line_ += piece.substr(0, LINE_BYTES_MAX - line_.size());
    if (end == std::string_view::npos) return;
    endLine();
    bytes.remove_prefix(end + 1);
  }
}

void OutputLines::endLine() {
  std::string line = std::exchange(line_, {});
  if (auto known = placed(line)) {
    endText();
    take_(*std::move(known));
    return;
  }
  if (line.empty() && text_.empty()) return;
  if (text_.size() + line.size() >= TEXT_BYTES_MAX) endText();
  if (!text_.empty()) text_ += '\n';
  text_ += line;
}

void OutputLines::endText() {
  if (text_.empty()) return;
  take_({WARNING, NAMELESS, std::exchange(text_, {}).substr(0, TEXT_BYTES_MAX)});
}

void OutputLines::flush() {
  if (!line_.empty()) endLine();
  endText();
}

}  // namespace mooncake_kv::child
