// keySpaceRegister, keySpaceRelease, keyOf.
#include <memory>

#include "addon/arguments.h"
#include "addon/memories.h"
#include "addon/subjects.h"
#include "core/key_space.h"

namespace mooncake_kv::addon {

namespace {

SegmentRule readSegment(napi_env env, napi_value value, const std::string& path) {
  const Options options(env, value, path);
  SegmentRule rule;
  rule.region = regions().require(options.id("regionId"));
  rule.offset = static_cast<uint64_t>(options.integer("offset", 0, BYTES_LAST));
  rule.strideBytes = static_cast<uint64_t>(options.integer("strideBytes", 0, BYTES_LAST));
  rule.bytes = static_cast<uint64_t>(options.integer("bytes", 1, BYTES_LAST));
  return rule;
}

napi_value keySpaceRegister(const Arguments<1>& arguments) {
  const napi_env env = arguments.env;
  const Options options(env, arguments[0]);
  KeySpace::Options made;
  made.hashes = sharedMemories().require(options.id("hashesSharedId"));
  made.hashBytes = static_cast<int32_t>(options.integer("hashBytes", 16, 32));
  made.blockCount = static_cast<int32_t>(options.integer("blockCount", 0, INT32_LAST));
  const Napi::Array prefixes = options.array("prefixes");
  for (uint32_t i = 0; i < prefixes.Length(); i++) {
    made.prefixes.push_back(readString(env, prefixes.Get(i), "options.prefixes[" + std::to_string(i) + "]"));
  }
  const Napi::Array groups = options.array("groups");
  for (uint32_t group = 0; group < groups.Length(); group++) {
    const std::string path = "options.groups[" + std::to_string(group) + "]";
    const Napi::Array segments = requireArray(env, groups.Get(group), path);
    std::vector<SegmentRule>& rules = made.groups.emplace_back();
    for (uint32_t segment = 0; segment < segments.Length(); segment++) {
      rules.push_back(readSegment(env, segments.Get(segment), path + "[" + std::to_string(segment) + "]"));
    }
  }
  return number(env, keySpaces().add(std::make_shared<KeySpace>(std::move(made))));
}

napi_value keySpaceRelease(const Arguments<1>& arguments) {
  keySpaces().remove(arguments.int32(0, "keySpaceId"));
  return nullptr;
}

napi_value keyOf(const Arguments<3>& arguments) {
  const std::shared_ptr<KeySpace> keySpace = keySpaces().require(arguments.int32(0, "keySpaceId"));
  const int32_t prefix = arguments.int32(1, "prefixIndex");
  const int32_t hashRow = arguments.int32(2, "hashRow");
  if (!keySpace->enter()) {
    throw Error("CLOSED", "keySpaceId", "", "the thread that registered its memory has ended", "Register a new key space.");
  }
  std::string text;
  const bool found = keySpace->key(prefix, hashRow, text);
  keySpace->leave();
  if (!found) {
    throw invalidValue("hashRow", std::to_string(prefix) + ", " + std::to_string(hashRow),
                       "the prefix index or the hash row is out of range", "Pass numbers of this key space.");
  }
  return Napi::String::New(arguments.env, text);
}

}  // namespace

void defineKeySpaces(Napi::Object exports) {
  define<1, keySpaceRegister>(exports, "keySpaceRegister");
  define<1, keySpaceRelease>(exports, "keySpaceRelease");
  define<3, keyOf>(exports, "keyOf");
}

}  // namespace mooncake_kv::addon
