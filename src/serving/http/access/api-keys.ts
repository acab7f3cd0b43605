import { createHash, timingSafeEqual } from "node:crypto";
import { fail } from "../../../errors.ts";

/** Characters that a header carries unchanged, whatever the client. */
const KEY = /^[\x21-\x7e]+$/;

/** Keys of which a request must show one. Compared in constant time; not kept as text. */
export class ApiKeys {
  readonly #digests: readonly Buffer[];

  /** None: no request needs a key. Throws INVALID_VALUE for a key that no request could show. */
  constructor(keys: readonly string[]) {
    for (const key of keys) checkKey(key);
    this.#digests = keys.map(digest);
  }

  get needed(): boolean {
    return this.#digests.length > 0;
  }

  /** Whether the header `Authorization` shows one of the keys, as `Bearer KEY`. */
  accept(authorization: string | undefined): boolean {
    if (!this.needed) return true;
    const [, shown] = /^bearer +(.*)$/i.exec(authorization ?? "") ?? [];
    if (shown === undefined) return false;
    const found = digest(shown);
    let accepted = false;
    // All are compared, so that the time does not tell which one was near.
    for (const known of this.#digests) accepted = timingSafeEqual(found, known) || accepted;
    return accepted;
  }
}

function digest(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** The key itself is never shown. */
function checkKey(key: string): void {
  if (KEY.test(key)) return;
  const problem =
    key === "" ? "is empty" : "holds spaces or other characters that no HTTP header carries";
  fail("INVALID_VALUE", "--api-key", undefined, problem, "Give a key of visible ASCII characters.");
}
