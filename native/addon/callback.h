// A JavaScript function that native code calls from the event loop.
#pragma once

#include <napi.h>

#include <initializer_list>

namespace mooncake_kv::addon {

/** Made, called and dropped on its JavaScript thread. */
struct Callback {
  napi_env env;
  napi_ref function = nullptr;
  napi_async_context context = nullptr;

  static Callback make(napi_env env, napi_value function, const char* name) {
    Callback made{env};
    NAPI_THROW_IF_FAILED(env, napi_create_reference(env, function, 1, &made.function), made);
    NAPI_THROW_IF_FAILED(env, napi_async_init(env, nullptr, Napi::String::New(env, name), &made.context), made);
    return made;
  }

  /** Inside a handle scope. */
  void call(std::initializer_list<napi_value> arguments) const {
    napi_value called = nullptr, global = nullptr, result = nullptr;
    napi_get_reference_value(env, function, &called);
    napi_get_global(env, &global);
    // Not napi_call_function: this one runs microtasks and process.nextTick afterwards, as an event of the loop should.
    if (napi_make_callback(env, context, global, called, arguments.size(), arguments.begin(), &result) == napi_pending_exception) {
      napi_value exception;
      if (napi_get_and_clear_last_exception(env, &exception) == napi_ok) napi_fatal_exception(env, exception);
    }
  }
  void drop() const {
    napi_delete_reference(env, function);
    napi_async_destroy(env, context);
  }
};

}  // namespace mooncake_kv::addon
