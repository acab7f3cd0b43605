import type { IdentityComparison, IdentityDifference } from "../../connector/identity/compare.ts";
import type { Log } from "../step.ts";

/** Whoever changes the value with each look cannot fill the memory; what is forgotten is told again. */
const TOLD_MAX = 256;

/** What the log is told of a pool's identity: each thing once, however often it is looked at. */
export class IdentityLog {
  readonly #key: string;
  readonly #log: Log;
  /** Differences and values that it was told of. */
  readonly #told = new Set<string>();

  constructor(key: string, log: Log) {
    this.#key = key;
    this.#log = log;
  }

  compared({ keys, bytes }: IdentityComparison): void {
    for (const difference of keys) this.#ofKeys(difference);
    for (const difference of bytes) this.#ofBytes(difference);
  }

  unpublished(code: number, problem: string): void {
    this.#warnOnce(
      `unpublished ${code}`,
      { code, problem },
      "the pool did not take this member's identity: others cannot compare theirs with it",
    );
  }

  /** `waits`: nothing is known, so requests do without the pool. */
  unanswered(code: number, problem: string, waits: boolean): void {
    this.#log.debug(
      { key: this.#key, code, problem },
      "the pool did not answer for the identity of its members",
    );
    if (waits)
      this.#warnOnce(
        "unanswered",
        { code, problem },
        "the identity of the pool's members cannot be read: requests are computed until it can",
      );
  }

  /** `otherFormat`: another version may have written it; else it is nobody's, and is replaced `afterMs` from now on at the latest. */
  unreadable(problem: string, otherFormat: boolean, afterMs: number): void {
    const remedy = otherFormat
      ? "A newer version of this software may have written it: run the same version in every process that shares the pool, " +
        "set cache_prefix to a name of its own, or remove the key."
      : `No member has written it. If it stays, it is replaced in about ${Math.ceil(afterMs / 1000)} s; until then cache_prefix ` +
        "with another name does without it.";
    this.#warnOnce(
      `unreadable ${problem}`,
      { problem },
      `the pool is not used, because the identity of its members cannot be read: ${problem}. ${remedy}`,
    );
  }

  replaced(problem: string): void {
    this.#warnOnce(
      `replaced ${problem}`,
      { problem },
      `the value under the pool's identity key was none (${problem}): it was removed, and this member's identity is put there`,
    );
  }

  /** A look ended with an error that it should not have. */
  failed(error: unknown): void {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    this.#warnOnce(
      `failed ${message}`,
      { error: message, stack },
      "looking at the identity of the pool's members failed: the pool is not used until a look succeeds",
    );
  }

  /** Everything is told anew should it happen again. */
  openAgain(): void {
    this.#told.clear();
    this.#log.warn(
      { key: this.#key },
      "the pool is open to this member again: what is published there agrees with it",
    );
  }

  #ofKeys({ field, ours, theirs }: IdentityDifference): void {
    const name = field.replace("keys.", "");
    this.#warnOnce(
      `${field} ${theirs}`,
      { field: name, ours, theirs },
      `this member and the pool's others form keys differently, so no block is shared: ${name} is ${ours} here and ${theirs} ` +
        `there. Give ${name} the same value in every process that shares the pool.`,
    );
  }

  #ofBytes({ field, ours, theirs }: IdentityDifference): void {
    const name = field.replace("bytes.", "");
    if (!this.#first(`${field} ${theirs}`)) return;
    this.#log.error(
      { key: this.#key, field: name, ours, theirs },
      `the pool is closed for this member, which computes everything: others keep different bytes under the same keys: ${name} ` +
        `is ${ours} here and ${theirs} there. Set cache_prefix to a name of its own for each kind of deployment, or give ${name} ` +
        "the same value everywhere and empty the pool.",
    );
  }

  #warnOnce(told: string, fields: object, text: string): void {
    if (this.#first(told)) this.#log.warn({ key: this.#key, ...fields }, text);
  }

  #first(told: string): boolean {
    const first = !this.#told.has(told);
    if (first && this.#told.size >= TOLD_MAX) this.#told.clear();
    this.#told.add(told);
    return first;
  }
}
