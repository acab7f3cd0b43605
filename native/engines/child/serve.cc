#include "engines/child/serve.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "core/apart.h"
#include "core/error.h"
#include "core/processors.h"
#include "engines/child/messages.h"
#include "engines/child/served_engine.h"
#include "engines/child/wire.h"
#include "engines/mooncake/wheel_log.h"
#include "engines/open_engine.h"

namespace mooncake_kv::child {

namespace {

constexpr std::chrono::milliseconds WELCOME_TIMEOUT{10'000};
/** An engine that does not close by then is left as it is: the system takes everything back. */
constexpr std::chrono::milliseconds CLOSE_TIMEOUT{5'000};
constexpr int EXIT_PROTOCOL = 76;

/** What the parent says and is told; lives until the process ends. */
class Control {
 public:
  explicit Control(Wire wire) : wire_(std::move(wire)) {}

  /** The options of the hello, with a link for each thread; false when there was none of this version. */
  bool greet(EngineOptions& options, std::vector<Wire>& links) {
    wire_.limit(WELCOME_TIMEOUT);
    std::span<const uint8_t> message;
    std::vector<Descriptor> descriptors;
    if (wire_.receive(message, &descriptors) != Outcome::done) return false;
    Reader reader(message);
    if (reader.take<Kind>() != Kind::hello || reader.take<uint32_t>() != MAGIC) return false;
    const auto protocol = reader.take<uint32_t>();
    say(Kind::welcome, [](Writer& writer) { writer(PROTOCOL); });
    if (protocol != PROTOCOL || reader.take<uint32_t>() != descriptors.size()) return false;
    options = readOptions(reader);
    for (Descriptor& descriptor : descriptors) links.emplace_back(std::move(descriptor));
    wire_.limit(std::chrono::milliseconds(0));
    return true;
  }

  template <typename Fill>
  void say(Kind kind, Fill&& fill) {
    std::lock_guard lock(mutex_);
    std::vector<uint8_t> bytes;
    Writer writer(bytes);
    writer(kind);
    fill(writer);
    // A parent that does not hear it is gone, which the main thread sees.
    wire_.send(writer.finish());
  }

  void awaitEnd() {
    std::span<const uint8_t> message;
    while (wire_.receive(message) == Outcome::done) {
    }
  }

 private:
  Wire wire_;
  std::mutex mutex_;
};

struct Opened {
  std::mutex mutex;
  std::shared_ptr<ServedEngine> engine;
};

void serveLink(const std::shared_ptr<ServedEngine>& engine, Wire link, bool spins) {
  const HalfOfProcessors half(HalfOfProcessors::Half::first, spins);
  try {
    engine->serve(std::move(link));
  } catch (const std::exception& error) {
    // Of a parent that sends such messages nothing more can be expected.
    std::fprintf(stderr, "E serve.cc:%d a link sent what this program does not understand: %s\n", __LINE__, error.what());
    _exit(EXIT_PROTOCOL);
  }
}

void open(const EngineOptions& options, std::vector<Wire>& links, Control& control, Opened& opened) {
  std::unique_ptr<Error> error;
  try {
    const EngineRecipe recipe = engineRecipe(options);
    const std::shared_ptr<Engine> engine = recipe.make();
    engine->open([&control](const std::string& reason) { control.say(Kind::lost, [&](Writer& writer) { writer(reason); }); });
    const auto served = std::make_shared<ServedEngine>(engine);
    {
      std::lock_guard lock(opened.mutex);
      opened.engine = served;
    }
    for (Wire& link : links) {
      // These are what I/O threads are in a host.
      startDetached("kv-link", [served, link = std::make_shared<Wire>(std::move(link)), spins = recipe.traits.spins] {
        serveLink(served, std::move(*link), spins);
      });
    }
    control.say(Kind::opened, [&](Writer& writer) { statisticsFields(writer, served->statistics()); });
    return;
  } catch (const Error& thrown) {
    error = std::make_unique<Error>(thrown);
  } catch (const std::exception& thrown) {
    error = std::make_unique<Error>("UNREACHABLE", "engine", "", thrown.what(), "See the engine's log.");
  }
  control.say(Kind::failed, [&](Writer& writer) { writeError(writer, *error); });
}

void beAChild(int controlDescriptor) {
  // The thread that started this process waits for it as long as the parent lives.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
#ifdef SYS_close_range
  // Whatever the parent's libraries left open across exec; older kernels keep it open.
  syscall(SYS_close_range, static_cast<unsigned>(controlDescriptor) + 1, ~0U, 0);
#endif
}

}  // namespace

int serveEngine(int controlDescriptor) {
  beAChild(controlDescriptor);
  // Never destroyed: threads that hang may still use them when the process ends.
  static auto& control = *new Control(Wire(Descriptor(controlDescriptor)));
  static auto& opened = *new Opened();
  static auto& options = *new EngineOptions();
  static auto& links = *new std::vector<Wire>();
  try {
    if (!control.greet(options, links)) return EXIT_PROTOCOL;
    auto* mooncake = std::get_if<MooncakeOptions>(&options);
    // The parent reads it there. A line that must come before the process dies is written by the thread that dies.
    if (mooncake != nullptr && mooncake->logPath.empty()) mooncake->logPath = "/proc/self/fd/2";
    startDetached("kv-open", [] { open(options, links, control, opened); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "E serve.cc:%d %s\n", __LINE__, error.what());
    return EXIT_PROTOCOL;
  }
  control.awaitEnd();
  std::shared_ptr<ServedEngine> engine;
  {
    std::lock_guard lock(opened.mutex);
    engine = opened.engine;
  }
  if (engine != nullptr) {
    runApart(
        [engine] {
          try {
            engine->close();
          } catch (const std::exception&) {
            // It is given up either way.
          }
        },
        std::chrono::steady_clock::now() + CLOSE_TIMEOUT);
  }
  // No destructors: an interpreter must not be finalized from here, and threads are still at work.
  _exit(0);
}

}  // namespace mooncake_kv::child
