// Slabs: ranges of 2 MiB that are cut into buffers of one size.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace mooncake_kv::local {

/**
 * Which buffers of which slab are free. A free buffer is warm when it has memory and cold when its memory went back to the
 * system; a cold one takes address space and nothing else. Maps and unmaps nothing itself. The caller locks.
 */
class Slabs {
 public:
  static constexpr size_t SLAB_BYTES = 2 << 20;
  /** Buffers of this size and above are mapped alone. */
  static constexpr size_t CAPACITY_END = 64 << 10;

  struct Slab {
    uint8_t* data;
    size_t capacity;
    /** Buffers in use, or on their way from one state to another. */
    size_t handedOut;
    std::vector<uint8_t*> warm;
    std::vector<uint8_t*> cold;
    /** Where it is: list `place` of its class. */
    size_t place;
    std::list<Slab>::iterator self;
  };
  /** A buffer and its slab; both null when there was none. */
  struct Piece {
    uint8_t* data = nullptr;
    Slab* slab = nullptr;
  };

  static size_t buffersPerSlab(size_t capacity) { return SLAB_BYTES / capacity; }

  /** Enters a mapped slab; all its buffers count as handed out, the first for the caller, the others to be pushed. */
  Slab* add(uint8_t* data, size_t capacity);
  Piece popWarm(size_t capacity);
  Piece popCold(size_t capacity);
  void pushWarm(Piece piece);
  /** The slab's data when that was its last buffer with memory or in use: the slab is forgotten, and the caller unmaps it. */
  uint8_t* pushCold(Piece piece);

  /** A slab with no buffer in use, forgotten: the caller unmaps it. `warmBytes` is what its warm buffers had. */
  uint8_t* popIdle(size_t& warmBytes);
  /** A warm buffer of whatever size, to be made cold. */
  Piece popWarmOfAnySize();

  /** All slabs that are left, forgotten. */
  std::vector<uint8_t*> popAll();

 private:
  /** Lists of a class: slabs with warm buffers, slabs with warm buffers and none in use, slabs with cold ones only, full slabs. */
  enum Place : size_t { WARM, IDLE, COLD, FULL, PLACES };
  using Class = std::array<std::list<Slab>, PLACES>;

  static constexpr size_t STEP_BYTES = 4096;

  Class& classOf(size_t capacity) { return classes_[capacity / STEP_BYTES]; }
  Piece popWarmFrom(Class& lists);
  /** Moves the slab to the head of the list where it belongs. */
  void settle(Slab& slab);
  uint8_t* forget(Slab& slab);

  std::array<Class, CAPACITY_END / STEP_BYTES> classes_;
};

}  // namespace mooncake_kv::local
