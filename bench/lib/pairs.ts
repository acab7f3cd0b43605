/** Who goes first changes, so that nobody always meets the colder caches. */
export async function inTurns(
  number: number,
  turns: readonly (() => Promise<void>)[],
): Promise<void> {
  const first = ((number % turns.length) + turns.length) % turns.length;
  for (let turn = 0; turn < turns.length; turn++) await turns[(first + turn) % turns.length]!();
}

/** Times of equally many calls of each, in nanoseconds, pair by pair. */
export class Pairs {
  #now = { node: 0, python: 0, control: 0 };
  readonly nodeTimes: number[] = [];
  readonly pythonOverNode: number[] = [];
  readonly pythonOverControl: number[] = [];

  add(who: "node" | "python" | "control", nanoseconds: number): void {
    this.#now[who] += nanoseconds;
  }

  /** `counts`: false for a pair that only warms up. */
  end(counts: boolean): void {
    const { node, python, control } = this.#now;
    this.#now = { node: 0, python: 0, control: 0 };
    if (!counts) return;
    this.nodeTimes.push(node);
    this.pythonOverNode.push(python / node);
    this.pythonOverControl.push(python / control);
  }
}
