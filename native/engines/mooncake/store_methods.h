// The Python objects behind a Store.
#pragma once

#include <memory>
#include <string>

#include "engines/mooncake/exit_hook.h"
#include "engines/mooncake/store.h"

namespace mooncake_kv::mooncake {

/** Bound methods, looked up once. */
struct Store::Methods {
  /** The first member, so that it goes last. Null for the methods of the class. */
  std::unique_ptr<OpenStore> open;
  python::Held object;
  python::Held replicateConfigType, replicateConfig;
  std::string preferredSegment;
  /** Puts name the group of each value. */
  bool namesGroups = false;
  python::Held batchExists, batchPut, batchGet, batchReplicas, batchRemove;
  /** Null where the wheel has no puts in steps. */
  python::Held startPut, transferPut, endPut, revokePut;
  python::Held exists, size, get, put, remove, removeMatching, removeAll, health, registerBuffer, unregisterBuffer, close;
  python::Held yes, no;

  /** Of the store, or of its class to see that all are there. Under the lock; throws Raised when the wheel has no such method. */
  void look(python::Object* from) {
    const auto method = [&](const char* name) { return python::attribute(from, name); };
    batchExists = method("batch_is_exist");
    batchPut = method("batch_put_from_multi_buffers");
    batchGet = method("batch_get_into_multi_buffers");
    batchReplicas = method("batch_get_replica_desc");
    batchRemove = method("batch_remove");
    exists = method("is_exist");
    size = method("get_size");
    get = method("get");
    put = method("put");
    remove = method("remove");
    removeMatching = method("remove_by_regex");
    removeAll = method("remove_all");
    health = method("health_check");
    registerBuffer = method("register_buffer");
    unregisterBuffer = method("unregister_buffer");
    close = method("close");
    const python::Ref builtins = python::importModule("builtins");
    yes = python::attribute(builtins.get(), "True");
    no = python::attribute(builtins.get(), "False");
  }

  /** Throws Raised when the wheel has no puts in steps. */
  void lookForSteps() {
    const auto method = [&](const char* name) { return python::attribute(object.get(), name); };
    transferPut = method("batch_put_from_multi_buffer_ranges");
    endPut = method("batch_put_session_end");
    revokePut = method("batch_put_session_revoke");
    startPut = method("batch_put_session_start");
  }

  /** How a put places its values. Under the lock; throws Raised. */
  python::Ref newReplicateConfig() const {
    python::Ref config = python::call(replicateConfigType.get(), {});
    if (!preferredSegment.empty()) setAttribute(config.get(), "preferred_segment", python::text(preferredSegment));
    return config;
  }
  static void setAttribute(python::Object* object, const char* name, const python::Ref& value) {
    if (python::api().PyObject_SetAttrString(object, name, value.get()) != 0) python::raise();
  }
};

}  // namespace mooncake_kv::mooncake
