#include "engines/mooncake/python/objects.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace mooncake_kv::python {

void keepThreadState() {
  static thread_local bool kept = false;
  if (std::exchange(kept, true)) return;
  api().PyGILState_Ensure();
  api().PyEval_SaveThread();
}

void raise() {
  Object *type = nullptr, *value = nullptr, *trace = nullptr;
  api().PyErr_Fetch(&type, &value, &trace);
  std::string message = "Python raised an error without a text";
  for (Object* object : {type, value}) {
    if (object == nullptr) continue;
    Object* shown = api().PyObject_Str(object);
    Object* utf8 = shown == nullptr ? nullptr : api().PyUnicode_AsUTF8String(shown);
    char* data = nullptr;
    intptr_t count = 0;
    if (utf8 != nullptr && api().PyBytes_AsStringAndSize(utf8, &data, &count) == 0 && count > 0) {
      message = object == type ? std::string(data, static_cast<size_t>(count))
                               : message + ": " + std::string(data, static_cast<size_t>(count));
    }
    api().PyErr_Clear();
    if (utf8 != nullptr) api().Py_DecRef(utf8);
    if (shown != nullptr) api().Py_DecRef(shown);
  }
  for (Object* object : {type, value, trace}) {
    if (object != nullptr) api().Py_DecRef(object);
  }
  throw Raised(message);
}

Ref importModule(const char* name) { return Ref::take(api().PyImport_ImportModule(name)); }
Ref attribute(Object* object, const char* name) { return Ref::take(api().PyObject_GetAttrString(object, name)); }
Ref text(std::string_view utf8) {
  return Ref::take(api().PyUnicode_FromStringAndSize(utf8.data(), static_cast<intptr_t>(utf8.size())));
}
Ref number(uint64_t value) { return Ref::take(api().PyLong_FromUnsignedLongLong(value)); }
Ref bytes(const void* data, size_t count) {
  return Ref::take(api().PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<intptr_t>(count)));
}

std::vector<uint8_t> asBytes(Object* object) {
  char* data = nullptr;
  intptr_t count = 0;
  if (api().PyBytes_AsStringAndSize(object, &data, &count) != 0) raise();
  return {data, data + count};
}

std::string asText(Object* object) {
  const Ref shown = Ref::take(api().PyObject_Str(object));
  const Ref utf8 = Ref::take(api().PyUnicode_AsUTF8String(shown.get()));
  const std::vector<uint8_t> read = asBytes(utf8.get());
  return {read.begin(), read.end()};
}

int64_t asNumber(Object* object) {
  const long long value = api().PyLong_AsLongLong(object);
  if (value == -1 && api().PyErr_Occurred() != nullptr) raise();
  return value;
}

uint64_t asUnsigned(Object* object) {
  const unsigned long long value = api().PyLong_AsUnsignedLongLong(object);
  if (value == ~0ull && api().PyErr_Occurred() != nullptr) raise();
  return value;
}

Ref call(Object* function, std::initializer_list<Object*> positional, Object* named) {
  const Ref tuple = Ref::take(api().PyTuple_New(static_cast<intptr_t>(positional.size())));
  intptr_t at = 0;
  for (Object* argument : positional) {
    // The tuple steals what it is given, the caller keeps its own.
    api().Py_IncRef(argument);
    api().PyTuple_SetItem(tuple.get(), at++, argument);
  }
  return Ref::take(api().PyObject_Call(function, tuple.get(), named));
}

void readNumbers(Object* list, size_t count, std::vector<int32_t>& into) {
  const intptr_t length = api().PyList_Size(list);
  if (length < 0) raise();
  if (static_cast<size_t>(length) != count) {
    throw Raised("the store answered " + std::to_string(length) + " results for " + std::to_string(count) + " keys");
  }
  into.resize(count);
  for (size_t index = 0; index < count; index++) {
    const int64_t value = asNumber(api().PyList_GetItem(list, static_cast<intptr_t>(index)));
    into[index] = static_cast<int32_t>(
        std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
  }
}

}  // namespace mooncake_kv::python
