# Node's headers: node_api.h and napi.h come from npm packages, uv.h from the Node installation.
set(modules ${CMAKE_CURRENT_SOURCE_DIR}/../node_modules)
set(NODE_ADDON_API_DIR ${modules}/node-addon-api CACHE PATH "Folder of napi.h")
set(NODE_API_HEADERS_DIR ${modules}/node-api-headers/include CACHE PATH "Folder of node_api.h")
if(NOT NODE_INCLUDE_DIR)
  execute_process(
    COMMAND node -p "require('node:path').resolve(require('node:fs').realpathSync(process.execPath), '../../include/node')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(NODE_INCLUDE_DIR ${found} CACHE PATH "Folder of uv.h" FORCE)
endif()
foreach(header ${NODE_ADDON_API_DIR}/napi.h ${NODE_API_HEADERS_DIR}/node_api.h ${NODE_INCLUDE_DIR}/uv.h)
  if(NOT EXISTS ${header})
    message(FATAL_ERROR "${header} is missing. Run `npm ci` first, and set NODE_ADDON_API_DIR, NODE_API_HEADERS_DIR or NODE_INCLUDE_DIR "
                        "when the headers lie elsewhere.")
  endif()
endforeach()

add_library(mooncake-kv MODULE
  addon/addon.cc
  addon/arguments.cc
  addon/channels.cc
  addon/engine_calls.cc
  addon/engine_options.cc
  addon/engines.cc
  addon/environment.cc
  addon/file_lock.cc
  addon/hashing.cc
  addon/key_spaces.cc
  addon/loop_signal.cc
  addon/memories.cc
  addon/wakes.cc
  addon/wheel_log.cc)
set_target_properties(mooncake-kv PROPERTIES PREFIX "" SUFFIX ".node")
target_include_directories(mooncake-kv SYSTEM PRIVATE ${NODE_API_HEADERS_DIR} ${NODE_ADDON_API_DIR} ${NODE_INCLUDE_DIR})
target_compile_definitions(mooncake-kv PRIVATE NAPI_VERSION=9 NAPI_CPP_EXCEPTIONS)
target_link_libraries(mooncake-kv PRIVATE mooncake-kv-core)
# Node unloads an addon when the last worker that loaded it ends. I/O threads may still run its code then.
target_link_options(mooncake-kv PRIVATE -Wl,-z,nodelete)
