// Control calls of engines from JavaScript.
#pragma once

#include <napi.h>

#include <string>
#include <vector>

namespace mooncake_kv::addon {

napi_value keysToJavaScript(napi_env env, const std::vector<std::string>& keys);

}  // namespace mooncake_kv::addon
