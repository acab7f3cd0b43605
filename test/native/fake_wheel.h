// Mooncake's package as the tests want it (fake_wheel/mooncake/store.py), in the interpreter of this process.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "engines/engine_options.h"
#include "engines/mooncake/python/interpreter.h"
#include "engines/mooncake/python/objects.h"

namespace support {

namespace python = mooncake_kv::python;

/** Any thread but those of the interpreter. */
class FakeWheel {
 public:
  /** Starts the interpreter. Fails the test when no Python has a shared library. */
  FakeWheel() {
    const char* named = std::getenv("MOONCAKE_PYTHON");
    for (const char* candidate : {named == nullptr ? "python3" : named, MOONCAKE_KV_VENV_PYTHON, "python3"}) {
      if (!library.empty()) break;
      executable = lineOf(std::string(candidate) + " -c 'import sys; print(sys.executable)' 2>/dev/null");
      library = lineOf(std::string(candidate) + " -c '" + FIND_LIBRARY + "' 2>/dev/null");
    }
    if (library.empty()) {
      ADD_FAILURE() << "No Python has a shared library (apt-get install libpython3-dev).";
      std::exit(EXIT_FAILURE);
    }
    setenv("PYTHONPATH", MOONCAKE_KV_FAKE_WHEEL, 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    python::startPython(executable, library);
    ask("begin", uint64_t{0});
  }

  /** Of an engine over this wheel. */
  mooncake_kv::MooncakeOptions options() const {
    mooncake_kv::MooncakeOptions made;
    made.pythonExecutable = executable;
    made.pythonLibrary = library;
    made.localHostname = "127.0.0.1";
    made.metadataServer = "P2PHANDSHAKE";
    made.localBufferBytes = 1 << 20;
    made.protocol = "tcp";
    // An address that is never connected to.
    made.masterServerAddress = "etcd://127.0.0.1:1";
    return made;
  }

  void plan(const std::string& how) { ask("plan", how); }
  /** What the next question for replicas is told of every key. */
  void tell(const std::string& replicas) { ask("tell", replicas); }
  void hold(const std::string& key) { ask("hold", key); }
  void drop(const std::string& key) { ask("drop", key); }
  void lease(const std::string& key) { ask("lease", key); }
  void endLeases() { ask("end_leases", uint64_t{0}); }
  void takeInHand(const std::string& key) { ask("take_in_hand", key); }
  bool isStored(const std::string& key) { return ask("is_stored", key) == 1; }
  int64_t keysLike(const std::string& part) { return ask("keys_like", part); }
  int64_t timesAsked(const std::string& key) { return ask("times_asked", key); }
  void letClose(bool yes) { ask("let_close", uint64_t{yes}); }
  void letReturn() { ask("let_return", uint64_t{1}); }
  void setHealth(uint64_t code) { ask("set_health", code); }
  int64_t count(const std::string& name) { return ask("count", name); }
  int64_t timesUsed(uint64_t nth) { return ask("times_used", nth); }

  std::string executable;
  std::string library;

 private:
  static constexpr const char* FIND_LIBRARY =
      "import os, sysconfig; of = sysconfig.get_config_var; folder = of(\"LIBDIR\") or \"\"; "
      "paths = [os.path.join(folder, more, of(\"INSTSONAME\") or \"\") for more in (\"\", of(\"MULTIARCH\") or \"\")]; "
      "print(next((path for path in paths if \".so\" in path and os.path.exists(path)), \"\"))";

  static std::string lineOf(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
    std::array<char, 4096> line{};
    if (output == nullptr || std::fgets(line.data(), line.size(), output.get()) == nullptr) return "";
    const std::string text(line.data());
    return text.substr(0, text.find('\n'));
  }
  static python::Ref function(const char* name) { return python::attribute(python::importModule("mooncake.store").get(), name); }
  static python::Ref object(const std::string& text) { return python::text(text); }
  static python::Ref object(uint64_t number) { return python::number(number); }

  template <typename Argument>
  int64_t ask(const char* name, const Argument& argument) {
    const python::Lock lock;
    return python::asNumber(python::call(function(name).get(), {object(argument).get()}).get());
  }
};

}  // namespace support
