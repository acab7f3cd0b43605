// Reads arguments and options with clear errors, and turns native errors into MooncakeKvErrors.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>

#include "core/error.h"

namespace mooncake_kv::addon {

inline constexpr int64_t INT32_LAST = INT32_MAX;
/** Largest byte count that a JavaScript number holds exactly. */
inline constexpr int64_t BYTES_LAST = (int64_t{1} << 53) - 1;

/** Throws the JavaScript error: name, code, field, value, remedy and the brand that `instanceof MooncakeKvError` looks for. */
void throwToJavaScript(napi_env env, const Error& error);
void throwToJavaScript(napi_env env, const std::exception& error);

int64_t readInteger(napi_env env, napi_value value, const std::string& field, int64_t min, int64_t max);
std::string readString(napi_env env, napi_value value, const std::string& field);
bool readBoolean(napi_env env, napi_value value, const std::string& field);
void requireFunction(napi_env env, napi_value value, const std::string& field);

struct View {
  uint8_t* data;
  size_t bytes;
};
View readView(napi_env env, napi_value value, const std::string& field);

/** Properties of an options object, their errors named "path.property". */
class Options {
 public:
  Options(napi_env env, napi_value value, std::string path = "options");

  /** Given, and not undefined. */
  bool has(const char* name) const;
  int64_t integer(const char* name, int64_t min, int64_t max) const;
  int32_t id(const char* name) const { return static_cast<int32_t>(integer(name, INT32_MIN, INT32_LAST)); }
  std::string string(const char* name) const;
  bool boolean(const char* name) const;
  View view(const char* name) const;
  Napi::Array array(const char* name) const;
  Options inner(const char* name) const { return Options(object_.Env(), property(name), field(name)); }

 private:
  std::string field(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
  napi_value property(const char* name) const;

  Napi::Object object_;
  std::string path_;
};

Napi::Array requireArray(napi_env env, napi_value value, const std::string& field);

/** Arguments of one call. Raw Node-API, because this is on the hot path. */
template <size_t N>
class Arguments {
 public:
  Arguments(napi_env env, napi_callback_info info) : env(env) {
    size_t count = N;
    napi_get_cb_info(env, info, &count, values_, nullptr, nullptr);
  }

  napi_value operator[](size_t index) const { return values_[index]; }
  int64_t integer(size_t index, const char* field, int64_t min, int64_t max) const {
    return readInteger(env, values_[index], field, min, max);
  }
  int32_t int32(size_t index, const char* field) const {
    return static_cast<int32_t>(readInteger(env, values_[index], field, INT32_MIN, INT32_LAST));
  }

  const napi_env env;

 private:
  napi_value values_[N];
};

/** Makes a Node-API callback of a function over N arguments. */
template <size_t N, napi_value (*F)(const Arguments<N>&)>
napi_value callback(napi_env env, napi_callback_info info) {
  try {
    return F(Arguments<N>(env, info));
  } catch (const Error& error) {
    throwToJavaScript(env, error);
  } catch (const Napi::Error& error) {
    error.ThrowAsJavaScriptException();
  } catch (const std::exception& error) {
    throwToJavaScript(env, error);
  }
  return nullptr;
}

template <size_t N, napi_value (*F)(const Arguments<N>&)>
void define(Napi::Object exports, const char* name) {
  napi_value function;
  NAPI_THROW_IF_FAILED_VOID(exports.Env(),
                            napi_create_function(exports.Env(), name, NAPI_AUTO_LENGTH, callback<N, F>, nullptr, &function));
  exports.Set(name, function);
}

inline napi_value number(napi_env env, double value) {
  napi_value result;
  napi_create_double(env, value, &result);
  return result;
}
inline napi_value boolean(napi_env env, bool value) {
  napi_value result;
  napi_get_boolean(env, value, &result);
  return result;
}

}  // namespace mooncake_kv::addon
