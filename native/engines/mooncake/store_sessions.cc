// Puts in three steps, and questions about keys that are no blocks' own.
#include "engines/mooncake/lifecycle_group.h"
#include "engines/mooncake/piece_lists.h"
#include "engines/mooncake/store.h"
#include "engines/mooncake/store_methods.h"

namespace mooncake_kv::mooncake {

using python::call;
using python::ListMaker;
using python::Lock;
using python::Ref;

namespace {

Ref listOf(const Names& names) {
  ListMaker list(names.size());
  for (const std::string& name : names) list.add(python::text(name));
  return list.take();
}

/** One number for each of `count` values, in a list of its own. */
template <typename NumberOf>
Ref onesOf(size_t count, NumberOf&& numberOf) {
  ListMaker all(count);
  for (size_t nth = 0; nth < count; nth++) {
    ListMaker one(1);
    one.add(python::number(numberOf(nth)));
    all.add(one.take());
  }
  return all.take();
}

}  // namespace

bool Store::knowsSteps() const { return static_cast<bool>(methods_->startPut); }

Ref Store::configOfGroups(const Names& ofKeys) const {
  ListMaker groups(ofKeys.size());
  for (const std::string& key : ofKeys) groups.add(python::text(lifecycleGroup(key)));
  Ref config = methods_->newReplicateConfig();
  Methods::setAttribute(config.get(), "group_ids", groups.take());
  return config;
}

void Store::startPut(const Names& names, const std::vector<uint64_t>& bytes, const Names& ofKeys, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = listOf(names);
  ListMaker sizes(bytes.size());
  for (const uint64_t each : bytes) sizes.add(python::number(each));
  const Ref sizeList = sizes.take();
  const Ref ofGroups = methods_->namesGroups ? configOfGroups(ofKeys) : Ref();
  python::Object* config = ofGroups ? ofGroups.get() : methods_->replicateConfig.get();
  python::readNumbers(call(methods_->startPut.get(), {keys.get(), sizeList.get(), config}).get(), names.size(), results);
}

void Store::transferPut(const PoolRequest& request, const Transfer& transfer, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = keyList(request, transfer.keys);
  const auto [addresses, sizes] = pieceLists(transfer);
  const Ref offsets = pieceOffsets(transfer);
  const Ref moved = call(methods_->transferPut.get(), {keys.get(), addresses.get(), sizes.get(), offsets.get()});
  python::readNumbers(moved.get(), transfer.keys.size(), results);
}

void Store::transferPut(const Names& names, const uint8_t* from, uint64_t bytesEach, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = listOf(names);
  const Ref addresses = onesOf(names.size(), [&](size_t nth) { return reinterpret_cast<uintptr_t>(from) + nth * bytesEach; });
  const Ref sizes = onesOf(names.size(), [&](size_t) { return bytesEach; });
  const Ref offsets = onesOf(names.size(), [](size_t) { return 0; });
  const Ref moved = call(methods_->transferPut.get(), {keys.get(), addresses.get(), sizes.get(), offsets.get()});
  python::readNumbers(moved.get(), names.size(), results);
}

void Store::get(const Names& keys, uint8_t* to, uint64_t bytesEach, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref list = listOf(keys);
  const Ref addresses = onesOf(keys.size(), [&](size_t nth) { return reinterpret_cast<uintptr_t>(to) + nth * bytesEach; });
  const Ref sizes = onesOf(keys.size(), [&](size_t) { return bytesEach; });
  python::readNumbers(call(methods_->batchGet.get(), {list.get(), addresses.get(), sizes.get()}).get(), keys.size(), results);
}

void Store::endPut(const Names& names, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref keys = listOf(names);
  python::readNumbers(call(methods_->endPut.get(), {keys.get()}).get(), names.size(), results);
}

void Store::revokePut(const Names& names) {
  if (names.empty()) return;
  const Lock lock;
  const Ref keys = listOf(names);
  call(methods_->revokePut.get(), {keys.get()});
}

void Store::exists(const Names& keys, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref list = listOf(keys);
  python::readNumbers(call(methods_->batchExists.get(), {list.get()}).get(), keys.size(), results);
}

void Store::remove(const Names& keys, std::vector<int32_t>& results) {
  const Lock lock;
  const Ref list = listOf(keys);
  python::readNumbers(call(methods_->batchRemove.get(), {list.get()}).get(), keys.size(), results);
}

}  // namespace mooncake_kv::mooncake
