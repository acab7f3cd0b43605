/** Blocks that lie in a row on both sides can be written at once. */

/** Ends (one behind the last index) of the longest runs in which both lists count up by one. The lists are equally long. */
export function contiguousRunEnds(from: readonly number[], to: readonly number[]): number[] {
  if (from.length !== to.length)
    throw new Error(`${from.length} blocks cannot be written to ${to.length}`);
  const ends: number[] = [];
  for (let index = 1; index <= from.length; index++) {
    const follows = step(from, index) === 1 && step(to, index) === 1;
    if (!follows) ends.push(index);
  }
  return ends;
}

function step(blocks: readonly number[], index: number): number {
  return (blocks[index] ?? NaN) - (blocks[index - 1] ?? NaN);
}
