/** One boundary put: group, block, tokens (see JOB_BOUNDARY_PAGE). */
export const BOUNDARY_PUT_WORDS = 3;

/** A growing list of boundary puts as words: blocks stored under the hash of a prefix rather than by their place in the row. */
export class BoundaryPuts {
  words = new Int32Array(8 * BOUNDARY_PUT_WORDS);
  count = 0;

  clear(): void {
    this.count = 0;
  }

  /** A put that is in the list already stays there once. */
  add(group: number, block: number, tokens: number): void {
    const { words } = this;
    const end = this.count * BOUNDARY_PUT_WORDS;
    for (let at = 0; at < end; at += BOUNDARY_PUT_WORDS)
      if (words[at] === group && words[at + 1] === block && words[at + 2] === tokens) return;
    if (end === words.length) {
      this.words = new Int32Array(2 * words.length);
      this.words.set(words);
    }
    this.words.set([group, block, tokens], end);
    this.count++;
  }

  group(put: number): number {
    return this.words[put * BOUNDARY_PUT_WORDS]!;
  }
  block(put: number): number {
    return this.words[put * BOUNDARY_PUT_WORDS + 1]!;
  }
  tokens(put: number): number {
    return this.words[put * BOUNDARY_PUT_WORDS + 2]!;
  }

  /** The least number of tokens whose hashes name all of these blocks. */
  tokensMax(): number {
    let most = 0;
    for (let put = 0; put < this.count; put++) most = Math.max(most, this.tokens(put));
    return most;
  }
}
