#include "engines/child/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "core/apart.h"
#include "engines/child/output_lines.h"
#include "engines/child/spawn.h"

namespace mooncake_kv::child {

namespace {

/** After that long without output what was written so far is one line of the log. */
constexpr int PAUSE_MS = 50;
constexpr std::chrono::milliseconds HELLO_TIMEOUT{10'000};

Error unreachable(const std::string& problem) {
  return Error("UNREACHABLE", "engine_process", "", problem, "It is started again by itself; see the log for why it ended.");
}

Error otherVersion(uint32_t protocol) {
  return Error("CONFIGURATION", "executable", std::to_string(protocol),
               "the engine's program is of another version than the addon (" + std::to_string(PROTOCOL) + ")",
               "Build both with `npm run build:native`.");
}

std::pair<Descriptor, Descriptor> outputPipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error("CAPACITY", "pipe", "", std::strerror(errno), "Raise the limit of open files (ulimit -n).");
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace

std::shared_ptr<ChildProcess> ChildProcess::start(const ChildOptions& options, std::vector<Descriptor> links, Gone gone) {
  auto [control, childControl] = socketPair();
  auto [output, childOutput] = outputPipe();
  const auto process = std::make_shared<ChildProcess>(std::move(gone), std::move(control), std::move(output));
  process->control_.limit(HELLO_TIMEOUT);
  startDetached("kv-child", [process, options, control = std::make_shared<Descriptor>(std::move(childControl)),
                             output = std::make_shared<Descriptor>(std::move(childOutput))]() mutable {
    process->live(options, std::move(*control), std::move(*output));
  });
  {
    std::unique_lock lock(process->mutex_);
    process->changed_.wait(lock, [&] { return process->pid_ != 0 || process->dead_; });
    if (process->error_ != nullptr) throw *process->error_;
  }
  try {
    process->sendHello(options, std::move(links));
    startDetached("kv-child-log", [process] { process->readAll(); });
  } catch (...) {
    process->kill("");
    throw;
  }
  return process;
}

void ChildProcess::sendHello(const ChildOptions& options, std::vector<Descriptor> links) {
  std::vector<uint8_t> bytes;
  std::vector<int> numbers;
  for (const Descriptor& link : links) numbers.push_back(link.get());
  Writer writer(bytes);
  writer(Kind::hello, MAGIC, PROTOCOL, static_cast<uint32_t>(links.size()));
  writeOptions(writer, *options.inner);
  if (control_.send(writer.finish(), numbers) != Outcome::done) throw unreachable("the engine's process ended at once");
  // Only for what is sent: what comes may take its time.
  control_.limit(std::chrono::milliseconds(0));
}

void ChildProcess::live(const ChildOptions& options, Descriptor control, Descriptor output) {
  pid_t pid = 0;
  std::unique_ptr<Error> error;
  try {
    pid = spawn(options, control, output);
  } catch (const Error& thrown) {
    error = std::make_unique<Error>(thrown);
  }
  // The child's ends: while this process has them too, their end is not seen.
  control = Descriptor();
  output = Descriptor();
  {
    std::lock_guard lock(mutex_);
    pid_ = pid;
    dead_ = error != nullptr;
    error_ = std::move(error);
    changed_.notify_all();
    if (dead_) return;
  }
  waitForEnd(pid);
}

void ChildProcess::waitForEnd(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  std::string reason = "the engine's process " + std::to_string(pid) + " ";
  {
    // Its number may belong to another process as soon as it has been waited for, so nobody may be about to kill it.
    std::lock_guard lock(mutex_);
    int status = 0;
    const bool known = waitpid(pid, &status, 0) == pid;
    pid_ = -1;
    const bool killed = known && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    reason += killed && !why_.empty() ? why_ : known ? endingText(status) : "ended";
  }
  tell(reason);
  std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::make_unique<Error>(unreachable(reason));
  dead_ = true;
  changed_.notify_all();
}

void ChildProcess::tell(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  gone_(reason);
}

NumberedStatistics ChildProcess::awaitOpen(Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  const auto ended = [&] { return opened_ || error_ != nullptr; };
  const auto welcomeBy = Clock::now() + HELLO_TIMEOUT;
  std::string problem;
  if (!changed_.wait_until(lock, welcomeBy, [&] { return welcomed_ || ended(); })) {
    problem = "the engine's process does not answer";
  } else if (!changed_.wait_until(lock, deadline, ended)) {
    problem = "the engine's process does not get its engine open";
  }
  if (!problem.empty()) {
    lock.unlock();
    kill("did not open its engine in time and was killed");
    throw unreachable(problem);
  }
  if (error_ != nullptr) throw *error_;
  return statistics_;
}

pid_t ChildProcess::pid() const {
  std::lock_guard lock(mutex_);
  return pid_;
}

bool ChildProcess::isDead() const {
  std::lock_guard lock(mutex_);
  return dead_;
}

bool ChildProcess::isEnding() const {
  std::lock_guard lock(mutex_);
  return told_;
}

void ChildProcess::kill(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (pid_ <= 0) return;
  // First: with no memory for the reason it must be dead all the same.
  ::kill(pid_, SIGKILL);
  if (why_.empty()) why_ = why;
}

void ChildProcess::end(Clock::time_point deadline) {
  {
    std::lock_guard lock(mutex_);
    told_ = true;
  }
  shutdown(control_.descriptor(), SHUT_WR);
  {
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, deadline, [&] { return dead_; })) return;
  }
  kill("did not close its engine in time and was killed");
}

void ChildProcess::awaitDeath() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return dead_; });
}

void ChildProcess::readAll() {
  OutputLines lines([](mooncake::LogLine line) { mooncake::addLogLine(std::move(line)); });
  pollfd polled[2] = {{.fd = control_.descriptor(), .events = POLLIN, .revents = 0}, {.fd = output_.get(), .events = POLLIN, .revents = 0}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const bool waits = lines.isHolding() || polled[0].fd < 0;
    const int ready = poll(polled, 2, waits ? PAUSE_MS : -1);
    if (ready == 0) {
      lines.flush();
      // A process that the child started may keep the pipe for ever.
      if (polled[0].fd < 0 && isDead()) return;
    }
    if (ready <= 0) continue;
    if (polled[0].revents != 0 && !readControl()) polled[0].fd = -1;
    if (polled[1].revents != 0 && !readOutput(lines)) polled[1].fd = -1;
  }
  lines.flush();
}

bool ChildProcess::readOutput(OutputLines& lines) {
  char bytes[16 << 10];
  const ssize_t count = read(output_.get(), bytes, sizeof bytes);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  lines.append({bytes, static_cast<size_t>(count)});
  return count > 0;
}

bool ChildProcess::readControl() {
  try {
    do {
      std::span<const uint8_t> payload;
      if (control_.receive(payload) != Outcome::done) {
        // It is ending. If it is not, it would not see when this process ends.
        if (!isEnding()) kill("");
        return false;
      }
      take(payload);
    } while (control_.isHolding());
    return true;
  } catch (const std::exception&) {
    kill("sent what nobody understands and was killed");
    return false;
  }
}

void ChildProcess::take(std::span<const uint8_t> payload) {
  Reader reader(payload);
  const Kind kind = reader.take<Kind>();
  if (kind == Kind::lost) {
    tell(reader.take<std::string>());
    kill("lost its engine and was killed");
    return;
  }
  std::lock_guard lock(mutex_);
  if (kind == Kind::welcome) {
    welcomed_ = true;
    const auto protocol = reader.take<uint32_t>();
    if (protocol != PROTOCOL) error_ = std::make_unique<Error>(otherVersion(protocol));
  } else if (kind == Kind::opened) {
    opened_ = true;
    statisticsFields(reader, statistics_);
  } else if (kind == Kind::failed) {
    error_ = std::make_unique<Error>(readError(reader));
  } else {
    throw Malformed("not a message of the control socket");
  }
  changed_.notify_all();
}

}  // namespace mooncake_kv::child
