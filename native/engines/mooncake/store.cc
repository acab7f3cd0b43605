#include "engines/mooncake/store.h"

#include <exception>

#include "core/apart.h"
#include "core/layout.h"
#include "engines/mooncake/lifecycle_group.h"
#include "engines/mooncake/piece_lists.h"
#include "engines/mooncake/store_methods.h"

namespace mooncake_kv::mooncake {

using python::call;
using python::Held;
using python::ListMaker;
using python::Lock;
using python::Ref;

namespace {

/** ReplicaStatus.COMPLETE of the wheel. */
constexpr int64_t REPLICA_COMPLETE = 3;

int64_t numberOf(const Ref& result) { return python::asNumber(result.get()); }

int64_t callWithKey(const Held& method, const std::string& key) {
  const Lock lock;
  const Ref text = python::text(key);
  return numberOf(call(method.get(), {text.get()}));
}

bool answersYes(python::Object* descriptor, const char* question) {
  const Ref method = python::attribute(descriptor, question);
  return python::api().PyObject_IsTrue(call(method.get(), {}).get()) == 1;
}

/** A value that is being written has a replica too. */
bool isComplete(python::Object* descriptor) {
  return python::asNumber(python::attribute(descriptor, "status").get()) == REPLICA_COMPLETE;
}

/** Another kind of replica of a later wheel is told apart by nothing, so that it counts while one of its kind is there. */
Replica readReplica(python::Object* descriptor) {
  if (answersYes(descriptor, "is_memory_replica")) {
    const Ref memory = call(python::attribute(descriptor, "get_memory_descriptor").get(), {});
    const Ref buffer = python::attribute(memory.get(), "buffer_descriptor");
    return {.tier = layout::TIER_MEMORY,
            .place = python::asText(python::attribute(buffer.get(), "transport_endpoint").get()),
            .address = static_cast<uint64_t>(python::asUnsigned(python::attribute(buffer.get(), "buffer_address").get())),
            .bytes = static_cast<uint64_t>(python::asUnsigned(python::attribute(buffer.get(), "size").get()))};
  }
  if (answersYes(descriptor, "is_disk_replica")) {
    const Ref disk = call(python::attribute(descriptor, "get_disk_descriptor").get(), {});
    return {.tier = layout::TIER_DISK,
            .place = python::asText(python::attribute(disk.get(), "file_path").get()),
            .bytes = static_cast<uint64_t>(python::asUnsigned(python::attribute(disk.get(), "object_size").get()))};
  }
  return {.tier = answersYes(descriptor, "is_local_disk_replica") ? layout::TIER_DISK : layout::TIER_UNKNOWN, .place = {}};
}

}  // namespace

Store::Store() : methods_(std::make_unique<Methods>()) {}

Store::~Store() {
  if (methods_ == nullptr) return;
  // Whoever lets go of the store last may be an I/O thread, and close may take 10 s, all of them under the interpreter's lock.
  try {
    startDetached("kv-store-end", [methods = std::shared_ptr<Methods>(std::move(methods_))]() mutable { end(std::move(methods)); });
  } catch (const std::exception&) {
    // No thread to be had: the objects go here.
  }
}

bool Store::close() { return end(std::move(methods_)); }

bool Store::end(std::shared_ptr<Methods> methods) {
  if (methods == nullptr || !methods->close) return false;
  bool closed = true;
  const Lock lock;
  try {
    call(methods->close.get(), {});
  } catch (const python::Raised&) {
    closed = false;
    if (methods->open != nullptr) methods->open->giveUp();
  }
  // The objects end under the lock, and with them what the wheel has left to its destructors.
  methods.reset();
  return closed;
}

Ref Store::keyList(const PoolRequest& request, const std::vector<uint32_t>& keys) const {
  ListMaker list(keys.size());
  for (const uint32_t index : keys) list.add(python::text(request.key(index)));
  return list.take();
}

Ref Store::configOfGroups(const PoolRequest& request, const std::vector<uint32_t>& keys) const {
  ListMaker groups(keys.size());
  for (const uint32_t index : keys) groups.add(python::text(lifecycleGroup(request.key(index))));
  Ref config = methods_->newReplicateConfig();
  Methods::setAttribute(config.get(), "group_ids", groups.take());
  return config;
}

void Store::exists(const PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results) {
  const Lock lock;
  ListMaker keys(to - from);
  for (uint32_t index = from; index < to; index++) keys.add(python::text(request.key(index)));
  const Ref list = keys.take();
  python::readNumbers(call(methods_->batchExists.get(), {list.get()}).get(), to - from, results);
}

void Store::remove(const PoolRequest& request, uint32_t from, uint32_t to, std::vector<int32_t>& results) {
  const Lock lock;
  ListMaker keys(to - from);
  for (uint32_t index = from; index < to; index++) keys.add(python::text(request.key(index)));
  const Ref list = keys.take();
  python::readNumbers(call(methods_->batchRemove.get(), {list.get()}).get(), to - from, results);
}

void Store::put(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = keyList(request, transfer.keys);
  const auto [addresses, sizes] = pieceLists(transfer);
  const Ref ofGroups = methods_->namesGroups ? configOfGroups(request, transfer.keys) : Ref();
  python::Object* config = ofGroups ? ofGroups.get() : methods_->replicateConfig.get();
  const Ref codes = call(methods_->batchPut.get(), {keys.get(), addresses.get(), sizes.get(), config});
  python::readNumbers(codes.get(), transfer.keys.size(), results);
}

void Store::get(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = keyList(request, transfer.keys);
  const auto [addresses, sizes] = pieceLists(transfer);
  python::readNumbers(call(methods_->batchGet.get(), {keys.get(), addresses.get(), sizes.get()}).get(), transfer.keys.size(), results);
}

void Store::replicas(const PoolRequest& request, const std::vector<uint32_t>& keys, ReplicaLists& lists) {
  const Lock lock;
  readReplicas(keyList(request, keys).get(), keys.size(), lists);
}

void Store::replicas(const std::string& key, ReplicaLists& lists) {
  const Lock lock;
  ListMaker list(1);
  list.add(python::text(key));
  readReplicas(list.take().get(), 1, lists);
}

void Store::readReplicas(python::Object* keys, size_t count, ReplicaLists& lists) {
  const Ref byKey = call(methods_->batchReplicas.get(), {keys});
  lists.clear();
  for (size_t index = 0; index < count; index++) {
    // Borrowed references, both of them, and the descriptors.
    python::Object* key = python::api().PyList_GetItem(keys, static_cast<intptr_t>(index));
    python::Object* replicas = python::api().PyDict_GetItem(byKey.get(), key);
    const intptr_t many = replicas == nullptr ? 0 : python::api().PyList_Size(replicas);
    for (intptr_t nth = 0; nth < many; nth++) {
      python::Object* descriptor = python::api().PyList_GetItem(replicas, nth);
      if (isComplete(descriptor)) lists.add(readReplica(descriptor));
    }
    lists.endKey();
  }
}

int64_t Store::exists(const std::string& key) { return callWithKey(methods_->exists, key); }
int64_t Store::size(const std::string& key) { return callWithKey(methods_->size, key); }

int64_t Store::remove(const std::string& key, bool force) {
  const Lock lock;
  const Ref text = python::text(key);
  return numberOf(call(methods_->remove.get(), {text.get(), (force ? methods_->yes : methods_->no).get()}));
}

int64_t Store::removeMatching(const std::string& pattern, bool force) {
  const Lock lock;
  const Ref text = python::text(pattern);
  return numberOf(call(methods_->removeMatching.get(), {text.get(), (force ? methods_->yes : methods_->no).get()}));
}

std::vector<uint8_t> Store::getValue(const std::string& key) {
  const Lock lock;
  const Ref text = python::text(key);
  return python::asBytes(call(methods_->get.get(), {text.get()}).get());
}

int64_t Store::putValue(const std::string& key, const std::vector<uint8_t>& value) {
  const Lock lock;
  const Ref text = python::text(key);
  const Ref bytes = python::bytes(value.data(), value.size());
  return numberOf(call(methods_->put.get(), {text.get(), bytes.get(), methods_->replicateConfig.get()}));
}

int64_t Store::removeAll(bool force) {
  const Lock lock;
  return numberOf(call(methods_->removeAll.get(), {(force ? methods_->yes : methods_->no).get()}));
}

int64_t Store::health() {
  const Lock lock;
  return numberOf(call(methods_->health.get(), {}));
}

int64_t Store::registerMemory(const uint8_t* address, uint64_t bytes) {
  std::lock_guard registration(registrationMutex_);
  uint32_t& holds = registrations_[{address, bytes}];
  if (holds == 0) {
    const Lock lock;
    const Ref start = python::number(reinterpret_cast<uintptr_t>(address));
    const Ref length = python::number(bytes);
    const int64_t code = numberOf(call(methods_->registerBuffer.get(), {start.get(), length.get()}));
    if (code != 0) {
      registrations_.erase({address, bytes});
      return code;
    }
  }
  holds++;
  return 0;
}

void Store::unregisterMemory(const uint8_t* address, uint64_t bytes) {
  std::lock_guard registration(registrationMutex_);
  if (methods_ == nullptr) return;
  const auto found = registrations_.find({address, bytes});
  if (found == registrations_.end() || --found->second > 0) return;
  registrations_.erase(found);
  const Lock lock;
  const Ref start = python::number(reinterpret_cast<uintptr_t>(address));
  call(methods_->unregisterBuffer.get(), {start.get()});
}

}  // namespace mooncake_kv::mooncake
