// engineCall.
#include "addon/engine_calls.h"

#include <cstring>
#include <memory>
#include <utility>

#include "addon/arguments.h"
#include "addon/callback.h"
#include "addon/engines.h"
#include "addon/environment.h"
#include "addon/subjects.h"
#include "core/control_call.h"

namespace mooncake_kv::addon {

napi_value keysToJavaScript(napi_env env, const std::vector<std::string>& keys) {
  Napi::Array result = Napi::Array::New(env, keys.size());
  for (uint32_t i = 0; i < keys.size(); i++) result.Set(i, keys[i]);
  return result;
}

namespace {

ControlRequest readRequest(napi_env env, napi_value value) {
  const Options options(env, value, "request");
  const std::string operation = options.string("operation");
  ControlRequest request;
  const auto with = [&](ControlOperation wanted, const char* text) {
    request.operation = wanted;
    if (text != nullptr) request.key = options.string(text);
  };
  if (operation == "getValue") {
    with(ControlOperation::getValue, "key");
  } else if (operation == "putValue") {
    with(ControlOperation::putValue, "key");
    const View view = options.view("value");
    if (view.bytes == 0 || view.bytes > CONTROL_VALUE_BYTES_MAX) {
      throw invalidValue("request.value", static_cast<int64_t>(view.bytes), "a value has 1 to 1048576 bytes here", "Put blocks with a batch.");
    }
    request.value.assign(view.data, view.data + view.bytes);
  } else if (operation == "removeKey") {
    with(ControlOperation::removeKey, "key");
    request.force = options.boolean("force");
  } else if (operation == "removePrefix") {
    with(ControlOperation::removePrefix, "prefix");
    request.force = options.boolean("force");
    request.keepChecksums = options.boolean("keepChecksums");
  } else if (operation == "removeCachePrefix") {
    with(ControlOperation::removeCachePrefix, "prefix");
    request.keepChecksums = options.boolean("keepChecksums");
  } else if (operation == "removeAll") {
    with(ControlOperation::removeAll, nullptr);
    request.force = options.boolean("force");
    request.keepChecksums = options.boolean("keepChecksums");
  } else if (operation == "keys") {
    with(ControlOperation::keys, "prefix");
    request.limit = static_cast<uint64_t>(options.integer("limit", 0, INT32_LAST));
  } else if (operation == "health") {
    with(ControlOperation::health, nullptr);
  } else {
    throw invalidValue("request.operation", "\"" + operation + "\"", "there is no such call",
                       "Use getValue, putValue, removeKey, removePrefix, removeCachePrefix, removeAll, keys or health.");
  }
  return request;
}

napi_value replyToJavaScript(napi_env env, const ControlReply& reply) {
  Napi::Object result = Napi::Object::New(env);
  result.Set("status", reply.status);
  result.Set("count", static_cast<double>(reply.count));
  result.Set("kept", static_cast<double>(reply.kept));
  auto value = Napi::Uint8Array::New(env, reply.value.size());
  if (!reply.value.empty()) std::memcpy(value.Data(), reply.value.data(), reply.value.size());
  result.Set("value", value);
  result.Set("keys", Napi::Value(env, keysToJavaScript(env, reply.keys)));
  result.Set("text", reply.text);
  return result;
}

void deliver(const Callback& callback, const ControlReply& reply) {
  try {
    const Napi::HandleScope scope(callback.env);
    callback.call({replyToJavaScript(callback.env, reply)});
  } catch (const Napi::Error&) {
    // An earlier callback has ended the thread: nothing can be made in it any more, and nobody waits.
  }
}

napi_value engineCall(const Arguments<3>& arguments) {
  const napi_env env = arguments.env;
  const std::shared_ptr<EngineHost> host = engines().require(arguments.int32(0, "engineId"));
  ControlRequest request = readRequest(env, arguments[1]);
  requireFunction(env, arguments[2], "callback");
  // The environment does not keep its loop alive: a call that never returns must not keep the process.
  const std::shared_ptr<Environment> environment = Environment::of(env).shared_from_this();
  environment->openLoop();
  const Callback callback = Callback::make(env, arguments[2], "mooncake-kv.engineCall");
  host->call(std::move(request), [environment, callback](ControlReply reply) {
    environment->post([callback, reply = std::move(reply)](bool mayCall) {
      if (mayCall) deliver(callback, reply);
      callback.drop();
    });
  });
  return nullptr;
}

}  // namespace

void defineEngineCalls(Napi::Object exports) { define<3, engineCall>(exports, "engineCall"); }

}  // namespace mooncake_kv::addon
