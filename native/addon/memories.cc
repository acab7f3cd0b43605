// regionCreate, regionPin, regionView, regionInfo, regionRelease, sharedRegister, sharedRelease.
#include "addon/memories.h"

#include <memory>

#include "addon/arguments.h"
#include "addon/environment.h"
#include "addon/subjects.h"

namespace mooncake_kv::addon {

Registry<Memory>& sharedMemories() {
  static auto* registry = new Registry<Memory>("sharedId");
  return *registry;
}

Registry<Memory>& regions() {
  static auto* registry = new Registry<Memory>("regionId");
  return *registry;
}

namespace {

napi_value sharedRegister(const Arguments<1>& arguments) {
  return number(arguments.env, sharedMemories().add(Environment::of(arguments.env).hold(arguments[0], "view")));
}

napi_value sharedRelease(const Arguments<1>& arguments) {
  sharedMemories().remove(arguments.int32(0, "sharedId"));
  return nullptr;
}

napi_value regionCreate(const Arguments<1>& arguments) {
  const int64_t bytes = arguments.integer(0, "bytes", 1, BYTES_LAST);
  return number(arguments.env, regions().add(Memory::createMemfd(static_cast<size_t>(bytes))));
}

napi_value regionPin(const Arguments<1>& arguments) {
  return number(arguments.env, regions().add(Environment::of(arguments.env).hold(arguments[0], "view")));
}

napi_value regionView(const Arguments<1>& arguments) {
  const std::shared_ptr<Memory> region = regions().require(arguments.int32(0, "regionId"));
  if (region->kind() == Memory::Kind::host) {
    throw Error("UNSUPPORTED", "regionId", std::to_string(arguments.int32(0, "regionId")), "pinned memory belongs to its user",
                "Post the user's own SharedArrayBuffer to the thread that wants to see it.");
  }
  auto* hold = new std::shared_ptr<Memory>(region);
  napi_value view = nullptr;
  const napi_status status = napi_create_external_arraybuffer(
      arguments.env, region->data(), region->bytes(),
      [](napi_env, void*, void* hint) { delete static_cast<std::shared_ptr<Memory>*>(hint); }, hold, &view);
  if (status != napi_ok) {
    delete hold;
    throw Error("UNSUPPORTED", "regionId", std::to_string(arguments.int32(0, "regionId")),
                "this JavaScript engine takes no external memory", "Use Node without pointer compression.");
  }
  return view;
}

napi_value regionInfo(const Arguments<1>& arguments) {
  const std::shared_ptr<Memory> region = regions().require(arguments.int32(0, "regionId"));
  Napi::Object info = Napi::Object::New(arguments.env);
  info.Set("kind", region->kind() == Memory::Kind::memfd ? "memfd" : "host");
  info.Set("bytes", static_cast<double>(region->bytes()));
  info.Set("fileDescriptor", region->fileDescriptor());
  return info;
}

napi_value regionRelease(const Arguments<1>& arguments) {
  const int32_t regionId = arguments.int32(0, "regionId");
  const std::shared_ptr<Memory> region = regions().find(regionId);
  // Its user may do with it what he likes from now on, and batches that are left must neither read nor write it.
  if (region != nullptr && region->kind() == Memory::Kind::host) region->closeAndWait();
  regions().remove(regionId);
  return nullptr;
}

}  // namespace

void defineMemories(Napi::Object exports) {
  define<1, sharedRegister>(exports, "sharedRegister");
  define<1, sharedRelease>(exports, "sharedRelease");
  define<1, regionCreate>(exports, "regionCreate");
  define<1, regionPin>(exports, "regionPin");
  define<1, regionView>(exports, "regionView");
  define<1, regionInfo>(exports, "regionInfo");
  define<1, regionRelease>(exports, "regionRelease");
}

}  // namespace mooncake_kv::addon
