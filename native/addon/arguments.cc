#include "addon/arguments.h"

#include <cmath>
#include <utility>

namespace mooncake_kv::addon {

namespace {

std::string describe(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  if (value != nullptr) napi_typeof(env, value, &type);
  if (type == napi_symbol) return "a symbol";
  if (type == napi_undefined) return "undefined";
  if (type == napi_object) return "an object";
  if (type == napi_function) return "a function";
  return Napi::Value(env, value).ToString().Utf8Value();
}

Error wrongType(napi_env env, napi_value value, const std::string& field, const std::string& wanted) {
  return Error("INVALID_TYPE", field, describe(env, value), "it must be " + wanted, "Pass " + wanted + ".");
}

}  // namespace

void throwToJavaScript(napi_env env, const Error& error) {
  const Napi::Env environment(env);
  Napi::Error thrown = Napi::Error::New(environment, error.what());
  Napi::Object object = thrown.Value();
  object.Set("name", "MooncakeKvError");
  object.Set("code", error.code);
  object.Set("field", error.field);
  if (!error.value.empty()) object.Set("value", error.value);
  object.Set("remedy", error.remedy);
  napi_value brand;
  if (node_api_symbol_for(env, "mooncake-kv.error", NAPI_AUTO_LENGTH, &brand) == napi_ok) {
    object.Set(brand, Napi::Boolean::New(environment, true));
  }
  thrown.ThrowAsJavaScriptException();
}

void throwToJavaScript(napi_env env, const std::exception& error) {
  throwToJavaScript(env, Error("CAPACITY", "addon", "", std::string("a native call failed: ") + error.what(),
                               "Free memory, or make pools and regions smaller."));
}

int64_t readInteger(napi_env env, napi_value value, const std::string& field, int64_t min, int64_t max) {
  double number = 0;
  if (value == nullptr || napi_get_value_double(env, value, &number) != napi_ok) throw wrongType(env, value, field, "a whole number");
  if (std::isnan(number) || std::trunc(number) != number) throw wrongType(env, value, field, "a whole number");
  if (number < static_cast<double>(min) || number > static_cast<double>(max)) {
    throw invalidValue(field, describe(env, value), "it must be from " + std::to_string(min) + " to " + std::to_string(max),
                       "Pass a number in that range.");
  }
  return static_cast<int64_t>(number);
}

std::string readString(napi_env env, napi_value value, const std::string& field) {
  napi_valuetype type = napi_undefined;
  if (value != nullptr) napi_typeof(env, value, &type);
  if (type != napi_string) throw wrongType(env, value, field, "a string");
  return Napi::String(env, value).Utf8Value();
}

bool readBoolean(napi_env env, napi_value value, const std::string& field) {
  bool result = false;
  if (value == nullptr || napi_get_value_bool(env, value, &result) != napi_ok) throw wrongType(env, value, field, "true or false");
  return result;
}

void requireFunction(napi_env env, napi_value value, const std::string& field) {
  napi_valuetype type = napi_undefined;
  if (value != nullptr) napi_typeof(env, value, &type);
  if (type != napi_function) throw wrongType(env, value, field, "a function");
}

View readView(napi_env env, napi_value value, const std::string& field) {
  bool isTypedArray = false;
  if (value != nullptr) napi_is_typedarray(env, value, &isTypedArray);
  napi_typedarray_type type = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  // The array buffer itself is not asked for: on Node 20 that call refuses views over a SharedArrayBuffer.
  if (isTypedArray) napi_get_typedarray_info(env, value, &type, &length, &data, nullptr, nullptr);
  if (!isTypedArray || type != napi_uint8_array) throw wrongType(env, value, field, "a Uint8Array");
  return {static_cast<uint8_t*>(data), length};
}

Napi::Array requireArray(napi_env env, napi_value value, const std::string& field) {
  bool isArray = false;
  if (value != nullptr) napi_is_array(env, value, &isArray);
  if (!isArray) throw wrongType(env, value, field, "an array");
  return Napi::Array(env, value);
}

Options::Options(napi_env env, napi_value value, std::string path) : path_(std::move(path)) {
  napi_valuetype type = napi_undefined;
  if (value != nullptr) napi_typeof(env, value, &type);
  if (type != napi_object) throw wrongType(env, value, path_, "an object");
  object_ = Napi::Object(env, value);
}

napi_value Options::property(const char* name) const { return object_.Get(name); }

bool Options::has(const char* name) const { return !object_.Get(name).IsUndefined(); }
int64_t Options::integer(const char* name, int64_t min, int64_t max) const {
  return readInteger(object_.Env(), property(name), field(name), min, max);
}
std::string Options::string(const char* name) const { return readString(object_.Env(), property(name), field(name)); }
bool Options::boolean(const char* name) const { return readBoolean(object_.Env(), property(name), field(name)); }
View Options::view(const char* name) const { return readView(object_.Env(), property(name), field(name)); }
Napi::Array Options::array(const char* name) const { return requireArray(object_.Env(), property(name), field(name)); }

}  // namespace mooncake_kv::addon
