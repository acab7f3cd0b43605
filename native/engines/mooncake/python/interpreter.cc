#include "engines/mooncake/python/interpreter.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "core/apart.h"
#include "core/error.h"
#include "engines/mooncake/python/objects.h"

namespace mooncake_kv::python {

namespace {

/** "3.11" */
std::string shortVersion() {
  const std::string version = api().Py_GetVersion();
  return version.substr(0, version.find('.', version.find('.') + 1));
}

void requireVersion(const std::string& library) {
  const std::string version = shortVersion();
  const int major = std::atoi(version.c_str());
  const int minor = std::atoi(version.c_str() + version.find('.') + 1);
  if (major == 3 && minor >= 8) return;
  throw Error("CONFIGURATION", "MOONCAKE_PYTHON", library, "Python " + version + " is too old", "Use Python 3.8 or newer.");
}

/** Packages of the interpreter that `executable` is, where its name alone did not lead there (Python 3.15 and newer). */
void addPackages(const std::string& executable) {
  const std::filesystem::path folder =
      std::filesystem::path(executable).parent_path().parent_path() / "lib" / ("python" + shortVersion()) / "site-packages";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return;
  const Ref site = importModule("site");
  const Ref add = attribute(site.get(), "addsitedir");
  const Ref path = text(folder.string());
  call(add.get(), {path.get()});
}

void initialize(const std::string& executable, const std::string& library) {
  requireVersion(library);
  // Somebody else in this process may have started it: it is used as it is.
  if (api().Py_IsInitialized() == 0) {
    if (!executable.empty() && api().Py_SetProgramName != nullptr && api().Py_DecodeLocale != nullptr) {
      // The interpreter keeps the pointer.
      api().Py_SetProgramName(api().Py_DecodeLocale(executable.c_str(), nullptr));
    }
    api().Py_InitializeEx(0);
    api().PyEval_SaveThread();
  }
  if (executable.empty() || api().Py_SetProgramName != nullptr) return;
  const Lock lock;
  addPackages(executable);
}

}  // namespace

void startPython(const std::string& executable, const std::string& library) {
  static std::mutex mutex;
  static bool started = false;
  std::lock_guard lock(mutex);
  loadPython(library);
  if (started) return;
  std::exception_ptr failure;
  const SignalsBlocked inherited;
  std::thread first([&] {
    try {
      initialize(executable, library);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  first.join();
  if (failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Raised& raised) {
      throw Error("CONFIGURATION", "MOONCAKE_PYTHON", executable, std::string("the interpreter does not start: ") + raised.what(),
                  "Set MOONCAKE_PYTHON to an interpreter that has the Mooncake package.");
    }
  }
  started = true;
}

}  // namespace mooncake_kv::python
