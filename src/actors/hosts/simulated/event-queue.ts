/** Virtual time: callbacks by due time, first in first out among equals. */
export class EventQueue {
  nowMs = 0;
  #heap: { dueMs: number; order: number; run: () => void }[] = [];
  #order = 0;

  schedule(delayMs: number, run: () => void): void {
    const heap = this.#heap;
    heap.push({ dueMs: this.nowMs + Math.max(0, delayMs), order: this.#order++, run });
    let child = heap.length - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!this.#before(child, parent)) break;
      [heap[child], heap[parent]] = [heap[parent]!, heap[child]!];
      child = parent;
    }
  }

  nextDueMs(): number {
    return this.#heap[0]?.dueMs ?? Infinity;
  }

  /** Runs everything that is due at the current time. */
  runDue(): void {
    while (this.nextDueMs() <= this.nowMs) this.#take().run();
  }

  #take(): { run: () => void } {
    const heap = this.#heap;
    const first = heap[0]!;
    const last = heap.pop()!;
    if (heap.length > 0) {
      heap[0] = last;
      for (let parent = 0; ;) {
        let least = parent;
        for (const child of [2 * parent + 1, 2 * parent + 2]) {
          if (child < heap.length && this.#before(child, least)) least = child;
        }
        if (least === parent) break;
        [heap[parent], heap[least]] = [heap[least]!, heap[parent]!];
        parent = least;
      }
    }
    return first;
  }

  #before(left: number, right: number): boolean {
    const a = this.#heap[left]!;
    const b = this.#heap[right]!;
    return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
  }
}
