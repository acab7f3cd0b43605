#include "engines/child/child_engine.h"

#include "core/codes.h"

namespace mooncake_kv::child {

namespace {

using Clock = ChildProcess::Clock;

/** For a call that finds all links in use, which only more callers than the host has threads can bring about. */
constexpr std::chrono::milliseconds FREE_LINK_POLL{100};

std::vector<uint8_t>& messageBuffer() {
  static thread_local std::vector<uint8_t> bytes;
  return bytes;
}

}  // namespace

ChildEngine::~ChildEngine() {
  if (process_ != nullptr) process_->end(Clock::now());
}

void ChildEngine::open(Lost lost) {
  std::vector<Descriptor> theirs;
  for (uint32_t index = 0; index < linksOf(options_); index++) {
    auto [ours, other] = socketPair();
    links_.push_back(std::make_unique<Wire>(std::move(ours)));
    links_.back()->limit(options_.callTimeout);
    free_.push_back(links_.back().get());
    theirs.push_back(std::move(other));
  }
  auto process = ChildProcess::start(options_, std::move(theirs), std::move(lost));
  bool abandoned = false;
  {
    std::lock_guard lock(mutex_);
    process_ = std::move(process);
    abandoned = abandoned_;
  }
  if (abandoned) abandon();
  keep(process_->awaitOpen(Clock::now() + options_.openTimeout));
}

void ChildEngine::abandon() {
  std::shared_ptr<ChildProcess> process;
  {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    process = process_;
  }
  if (process != nullptr) process->kill("was given up before its engine was open and was killed");
}

void ChildEngine::close() {
  process_->end(Clock::now() + options_.closeTimeout);
  process_->awaitDeath();
}

namespace {

/** Leaves `why` empty when there is no memory for it: nothing may keep `ask` from the end of the child. */
void explain(std::string& why, const char* what, const char* detail) noexcept {
  try {
    why = std::string(what) + detail;
  } catch (const std::exception&) {
  }
}

}  // namespace

template <typename Read>
int32_t ChildEngine::ask(std::span<const uint8_t> message, std::span<const int> descriptors, Read&& read) {
  if (message.size() > MESSAGE_BYTES_MAX) return code::ENGINE_ERROR;
  Wire* link = takeLink();
  if (link == nullptr) return code::ENGINE_DOWN;
  Outcome outcome = Outcome::done;
  std::string why;
  try {
    std::span<const uint8_t> answer;
    outcome = link->send(message, descriptors);
    if (outcome == Outcome::done) outcome = link->receive(answer);
    if (outcome == Outcome::done) {
      Reader reader(answer);
      read(reader);
      NumberedStatistics statistics;
      statisticsFields(reader, statistics);
      keep(statistics);
      giveBack(link);
      return code::OK;
    }
    if (outcome == Outcome::timedOut) why = "did not answer a call in time and was killed";
  } catch (const Malformed& malformed) {
    explain(why, "sent a wrong answer and was killed: ", malformed.what());
  } catch (const std::exception& error) {
    explain(why, "could not be asked and was killed: ", error.what());
  }
  // Whether it still works on the call nobody knows, but a dead process writes into no block.
  process_->kill(why);
  process_->awaitDeath();
  return outcome == Outcome::closed ? code::ENGINE_DOWN : code::ENGINE_ERROR;
}

Wire* ChildEngine::takeLink() {
  std::unique_lock lock(mutex_);
  while (free_.empty()) {
    lock.unlock();
    if (process_->isDead()) return nullptr;
    lock.lock();
    given_.wait_for(lock, FREE_LINK_POLL, [&] { return !free_.empty(); });
  }
  Wire* link = free_.back();
  free_.pop_back();
  return link;
}

void ChildEngine::giveBack(Wire* link) {
  {
    std::lock_guard lock(mutex_);
    free_.push_back(link);
  }
  given_.notify_one();
}

void ChildEngine::keep(const NumberedStatistics& read) {
  std::lock_guard lock(mutex_);
  if (read.number > statistics_.number) statistics_ = read;
}

EngineStatistics ChildEngine::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_.statistics;
}

int32_t ChildEngine::run(PoolRequest& request) {
  Writer writer(messageBuffer());
  writer(Kind::run);
  writeRequest(writer, request);
  int32_t status = code::OK;
  const int32_t asked = ask(writer.finish(), {}, [&](Reader& reader) { status = readResults(reader, request); });
  return asked == code::OK ? status : asked;
}

ControlReply ChildEngine::control(const ControlRequest& request) {
  Writer writer(messageBuffer());
  writer(Kind::control);
  controlRequestFields(writer, request);
  ControlReply reply;
  const int32_t asked = ask(writer.finish(), {}, [&](Reader& reader) { controlReplyFields(reader, reply); });
  if (asked != code::OK) return {.status = asked, .text = "the engine's process is gone"};
  return reply;
}

bool ChildEngine::corrupt(const std::string& key, uint64_t byteOffset) {
  Writer writer(messageBuffer());
  writer(Kind::corrupt, key, byteOffset);
  bool flipped = false;
  ask(writer.finish(), {}, [&](Reader& reader) { reader(flipped); });
  return flipped;
}

void ChildEngine::registerMemory(const Memory& memory) {
  if (memory.kind() != Memory::Kind::memfd) {
    throw Error("UNSUPPORTED", "memory", std::to_string(memory.bytes()) + " bytes of a JavaScript thread",
                "an engine in a child process sees memfds only", "Let its values travel in transit memory.");
  }
  Writer writer(messageBuffer());
  writer(Kind::registerMemory, memory.number(), static_cast<uint64_t>(memory.bytes()));
  const int descriptor = memory.fileDescriptor();
  askForMemory(writer.finish(), {&descriptor, 1});
}

void ChildEngine::unregisterMemory(const Memory& memory) {
  if (process_->isDead()) return;
  Writer writer(messageBuffer());
  writer(Kind::unregisterMemory, memory.number());
  askForMemory(writer.finish(), {});
}

void ChildEngine::askForMemory(std::span<const uint8_t> message, std::span<const int> descriptors) {
  std::unique_ptr<Error> refusal;
  const int32_t asked = ask(message, descriptors, [&](Reader& reader) {
    if (!reader.take<bool>()) refusal = std::make_unique<Error>(readError(reader));
  });
  if (refusal != nullptr) throw *refusal;
  if (asked != code::OK) {
    throw Error("UNREACHABLE", "engine_process", "", "the engine's process ended while it was told of KV memory",
                "It is started again by itself; see the log for why it ended.");
  }
}

}  // namespace mooncake_kv::child
