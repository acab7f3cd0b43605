#include "engines/mooncake/python/api.h"

#include <dlfcn.h>

#include <mutex>

#include "core/error.h"

namespace mooncake_kv::python {

namespace {

Api loaded;
std::string loadedFrom;

Error unusable(const std::string& library, const std::string& problem, const std::string& remedy) {
  return Error("CONFIGURATION", "MOONCAKE_PYTHON", library, problem, remedy);
}

template <typename Function>
bool find(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

const Api& api() { return loaded; }

void loadPython(const std::string& library) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!loadedFrom.empty()) {
    if (loadedFrom == library) return;
    throw unusable(library, "this process runs the Python of " + loadedFrom + " already, and there can be one only",
                   "Use one MOONCAKE_PYTHON in a process, or \"engine_process\": \"child\".");
  }
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    throw unusable(library, std::string("the interpreter's shared library cannot be loaded: ") + dlerror(),
                   "Install it (Debian, Ubuntu: apt-get install libpython3-dev; pyenv: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv "
                   "install VERSION), or set MOONCAKE_PYTHON to an interpreter that has one.");
  }
  Api found;
  const char* missing = nullptr;
#define X(result, name, parameters) \
  if (!find(handle, #name, found.name)) missing = #name;
  MOONCAKE_KV_PYTHON(X)
#undef X
  if (missing != nullptr) {
    // The handle stays open: a library that has started threads or atexit handlers must not be unloaded.
    throw unusable(library, std::string("the library has no ") + missing, "Set MOONCAKE_PYTHON to a CPython of version 3.8 or newer.");
  }
  find(handle, "Py_SetProgramName", found.Py_SetProgramName);
  find(handle, "Py_DecodeLocale", found.Py_DecodeLocale);
  loaded = found;
  loadedFrom = library;
}

}  // namespace mooncake_kv::python
