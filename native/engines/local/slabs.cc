#include "engines/local/slabs.h"

namespace mooncake_kv::local {

namespace {

uint8_t* popBack(std::vector<uint8_t*>& list) {
  uint8_t* data = list.back();
  list.pop_back();
  return data;
}

}  // namespace

Slabs::Slab* Slabs::add(uint8_t* data, size_t capacity) {
  std::list<Slab>& full = classOf(capacity)[FULL];
  full.push_front({data, capacity, buffersPerSlab(capacity), {}, {}, FULL, {}});
  full.front().self = full.begin();
  return &full.front();
}

Slabs::Piece Slabs::popWarm(size_t capacity) { return popWarmFrom(classOf(capacity)); }

Slabs::Piece Slabs::popWarmFrom(Class& lists) {
  // Idle slabs last: they are what another size can have as a whole.
  std::list<Slab>& list = lists[lists[WARM].empty() ? IDLE : WARM];
  if (list.empty()) return {};
  Slab& slab = list.front();
  uint8_t* data = popBack(slab.warm);
  slab.handedOut++;
  settle(slab);
  return {data, &slab};
}

Slabs::Piece Slabs::popCold(size_t capacity) {
  std::list<Slab>& list = classOf(capacity)[COLD];
  if (list.empty()) return {};
  Slab& slab = list.front();
  uint8_t* data = popBack(slab.cold);
  slab.handedOut++;
  settle(slab);
  return {data, &slab};
}

void Slabs::pushWarm(Piece piece) {
  piece.slab->warm.push_back(piece.data);
  piece.slab->handedOut--;
  settle(*piece.slab);
}

uint8_t* Slabs::pushCold(Piece piece) {
  Slab& slab = *piece.slab;
  slab.cold.push_back(piece.data);
  slab.handedOut--;
  if (slab.handedOut == 0 && slab.warm.empty()) return forget(slab);
  settle(slab);
  return nullptr;
}

uint8_t* Slabs::popIdle(size_t& warmBytes) {
  for (Class& lists : classes_) {
    if (lists[IDLE].empty()) continue;
    Slab& slab = lists[IDLE].back();
    warmBytes = slab.warm.size() * slab.capacity;
    return forget(slab);
  }
  return nullptr;
}

Slabs::Piece Slabs::popWarmOfAnySize() {
  for (Class& lists : classes_) {
    const Piece piece = popWarmFrom(lists);
    if (piece.data != nullptr) return piece;
  }
  return {};
}

std::vector<uint8_t*> Slabs::popAll() {
  std::vector<uint8_t*> all;
  for (Class& lists : classes_) {
    for (std::list<Slab>& list : lists) {
      for (const Slab& slab : list) all.push_back(slab.data);
      list.clear();
    }
  }
  return all;
}

void Slabs::settle(Slab& slab) {
  Class& lists = classOf(slab.capacity);
  const size_t place = !slab.warm.empty() ? (slab.handedOut == 0 ? IDLE : WARM) : slab.cold.empty() ? FULL : COLD;
  if (place == slab.place) return;
  lists[place].splice(lists[place].begin(), lists[slab.place], slab.self);
  slab.place = place;
}

uint8_t* Slabs::forget(Slab& slab) {
  uint8_t* data = slab.data;
  classOf(slab.capacity)[slab.place].erase(slab.self);
  return data;
}

}  // namespace mooncake_kv::local
