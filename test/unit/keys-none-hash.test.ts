/**
 * Goal: where vLLM draws NONE_HASH at random, so does ours, from randomness that the caller gives.
 * Method: a source that notes what is asked of it; and none at all.
 */
import { expect, it } from "vitest";
import { noneHash } from "../../src/keys/none-hash.ts";

it("is drawn anew, 32 bytes, where vLLM draws it", () => {
  const asked: number[] = [];
  const drawn = noneHash(null, "xxhash", (count) => {
    asked.push(count);
    return new Uint8Array(count).fill(7);
  });
  expect(asked).toEqual([32]);
  expect(Buffer.from(drawn).toString("hex")).toBe("07".repeat(32));
  expect(() => noneHash(null, "xxhash_cbor")).toThrow(
    expect.objectContaining({ code: "MISSING", field: "PYTHONHASHSEED" }),
  );
});
