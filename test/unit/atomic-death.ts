import { withMortalAtomics } from "../../src/actors/hosts/simulated/mortal-atomics.ts";

/** Thrown where a test ends a thread. */
export class Death extends Error {}

/** Runs `run` as a thread that dies right before its atomic operation number `at`. True: it had so many, and died. */
export function diesBefore(at: number, run: () => void): boolean {
  let left = at;
  const beforeEach = (): void => {
    if (left-- === 0) throw new Death();
  };
  try {
    withMortalAtomics(beforeEach, run);
    return false;
  } catch (error) {
    if (error instanceof Death) return true;
    throw error;
  }
}
