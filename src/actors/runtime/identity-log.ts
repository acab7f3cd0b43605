import type { IdentityComparison, IdentityDifference } from "../../connector/identity/compare.ts";
import type { Log } from "../step.ts";

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

  unreadable(problem: string): void {
    this.#warnOnce(
      `unreadable ${problem}`,
      { problem },
      `the identity of the pool's members is not compared: ${problem}. A newer version of this software may have ` +
        "written it; run the same version in every process that shares the pool.",
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
    this.#told.add(told);
    return first;
  }
}
