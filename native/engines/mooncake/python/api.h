// The part of CPython's stable ABI that the engine needs, found at run time: one build serves every Python from 3.8 on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// Declared here, because no Python headers are there at build time. A reference to an object of the interpreter.
struct _object;

namespace mooncake_kv::python {

using Object = ::_object;

// result, name, parameters: all are in the limited API of Python 3.8 or older.
#define MOONCAKE_KV_PYTHON(X)                                                                    \
  X(int, Py_IsInitialized, (void))                                                               \
  X(void, Py_InitializeEx, (int))                                                                \
  X(const char*, Py_GetVersion, (void))                                                          \
  X(void, Py_IncRef, (Object*))                                                                  \
  X(void, Py_DecRef, (Object*))                                                                  \
  X(void*, PyEval_SaveThread, (void))                                                            \
  X(int, PyGILState_Ensure, (void))                                                              \
  X(void, PyGILState_Release, (int))                                                             \
  X(Object*, PyImport_ImportModule, (const char*))                                               \
  X(Object*, PyObject_GetAttrString, (Object*, const char*))                                     \
  X(int, PyObject_SetAttrString, (Object*, const char*, Object*))                                \
  X(int, PyObject_IsTrue, (Object*))                                                             \
  X(Object*, PyObject_Str, (Object*))                                                            \
  X(Object*, PyObject_Call, (Object*, Object*, Object*))                                         \
  X(Object*, PyTuple_New, (intptr_t))                                                            \
  X(int, PyTuple_SetItem, (Object*, intptr_t, Object*))                                          \
  X(Object*, PyList_New, (intptr_t))                                                             \
  X(intptr_t, PyList_Size, (Object*))                                                            \
  X(Object*, PyList_GetItem, (Object*, intptr_t))                                                \
  X(int, PyList_SetItem, (Object*, intptr_t, Object*))                                           \
  X(int, PyList_Insert, (Object*, intptr_t, Object*))                                            \
  X(Object*, PyDict_New, (void))                                                                 \
  X(Object*, PyDict_GetItem, (Object*, Object*))                                                 \
  X(int, PyDict_SetItemString, (Object*, const char*, Object*))                                  \
  X(Object*, PyLong_FromUnsignedLongLong, (unsigned long long))                                  \
  X(long long, PyLong_AsLongLong, (Object*))                                                     \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (Object*))                                    \
  X(Object*, PyUnicode_FromStringAndSize, (const char*, intptr_t))                               \
  X(Object*, PyUnicode_AsUTF8String, (Object*))                                                  \
  X(Object*, PyBytes_FromStringAndSize, (const char*, intptr_t))                                 \
  X(int, PyBytes_AsStringAndSize, (Object*, char**, intptr_t*))                                  \
  X(void, PyErr_Fetch, (Object**, Object**, Object**))                                           \
  X(void, PyErr_Clear, (void))                                                                   \
  X(Object*, PyErr_Occurred, (void))

/** Functions of the interpreter that this process has loaded. Valid after `loadPython`. */
struct Api {
#define X(result, name, parameters) result(*name) parameters = nullptr;
  MOONCAKE_KV_PYTHON(X)
#undef X
  /** Gone from Python 3.15 on; null there. */
  void (*Py_SetProgramName)(const wchar_t*) = nullptr;
  wchar_t* (*Py_DecodeLocale)(const char*, size_t*) = nullptr;
};

/** Only after `loadPython`. */
const Api& api();

/**
 * Loads libpython with its symbols visible to all (the wheel's modules name none of its libraries), once a process; the library is
 * never unloaded. Throws Error CONFIGURATION: file absent, no Python in it, or another one loaded already. Any thread.
 */
void loadPython(const std::string& library);

}  // namespace mooncake_kv::python
