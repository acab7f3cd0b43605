// How a process ends that has left stores of the wheel open.
#pragma once

#include <memory>

namespace mooncake_kv::mooncake {

class Pool;

/**
 * The wheel closes its stores in an exit handler of its own, without regard to calls that are in them or to a set-up under way, and
 * may crash there. So a handler of ours runs before it: it takes every pool out of use, waits `EXIT_CLOSE_TIMEOUT` at most until each
 * store is closed, and lets the other handlers go on. Where a store is not closed by then, it flushes the output and ends the process
 * with the exit code that was asked for, without them. Stores that were closed in order cost nothing. A forked process that exits
 * ends without these handlers: the stores are its parent's.
 *
 * Called after each import and set-up of the wheel, and as JavaScript ends (`atEnd`), because what is registered last runs first. Any
 * thread.
 */
void hookExit(bool atEnd = false);

/** The pool is retired when the process ends, at once if it ends already. */
void retireAtExit(const std::shared_ptr<Pool>& pool);

/** Counts as a store that is not closed, as long as it lives. */
class OpenStore {
 public:
  OpenStore();
  ~OpenStore();
  OpenStore(const OpenStore&) = delete;
  OpenStore& operator=(const OpenStore&) = delete;

  /** Nothing is known of the store any more: it counts as open for good. */
  void giveUp() { givenUp_ = true; }
  /** The process ends: nothing may be set up. */
  static bool tooLate();

 private:
  bool givenUp_ = false;
};

}  // namespace mooncake_kv::mooncake
