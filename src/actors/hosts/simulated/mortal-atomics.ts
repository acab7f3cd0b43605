/** The functions through which actors read and write single words of shared tables. */
const OPERATIONS = ["load", "store", "add", "and", "or", "exchange", "compareExchange"] as const;

type Operation = (...given: unknown[]) => unknown;

/**
 * Calls `beforeEach` before every operation on a shared word that `run` makes: what it throws, the operation has not done. The
 * functions of `Atomics` themselves are replaced for that time, so that the actor's code needs no detour for the simulator.
 */
export function withMortalAtomics(beforeEach: () => void, run: () => void): void {
  const genuine = OPERATIONS.map((name) => [name, Atomics[name] as Operation] as const);
  for (const [name, operation] of genuine) {
    Reflect.set(Atomics, name, (...given: unknown[]) => {
      beforeEach();
      return operation(...given);
    });
  }
  try {
    run();
  } finally {
    for (const [name, operation] of genuine) Reflect.set(Atomics, name, operation);
  }
}
