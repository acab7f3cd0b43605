interface Branch {
  /** By UTF-16 unit. */
  readonly next: Map<number, Branch>;
  id: number;
}

/** Finds tokens that a text writes out: the longest of those that begin at a place, the first place first. */
export class WrittenOutTokens {
  readonly #root: Branch = { next: new Map(), id: -1 };

  constructor(tokens: Iterable<readonly [text: string, id: number]>) {
    for (const [text, id] of tokens) {
      if (text === "") continue;
      let branch = this.#root;
      for (let at = 0; at < text.length; at++) {
        const unit = text.charCodeAt(at);
        let next = branch.next.get(unit);
        if (next === undefined) branch.next.set(unit, (next = { next: new Map(), id: -1 }));
        branch = next;
      }
      branch.id = id;
    }
  }

  /** Null when there is none from `from` on. */
  next(
    text: string,
    from: number,
  ): { readonly start: number; readonly end: number; readonly id: number } | null {
    const { next: first } = this.#root;
    if (first.size === 0) return null;
    for (let start = from; start < text.length; start++) {
      let branch = first.get(text.charCodeAt(start));
      let [end, id] = [start, -1];
      for (let at = start + 1; branch !== undefined; at++) {
        if (branch.id >= 0) [end, id] = [at, branch.id];
        branch = at < text.length ? branch.next.get(text.charCodeAt(at)) : undefined;
      }
      if (id >= 0) return { start, end, id };
    }
    return null;
  }
}
