/**
 * Goal: the direct connector's messages arrive as they were sent, bytes that are none are refused by name, and every byte of a
 * decoder's blocks is written by exactly one prefill rank.
 * Method: random messages there and back, random bytes and random maps; all pairings of ranks at random sizes, byte by byte.
 */
import fc from "fast-check";
import { encode } from "@msgpack/msgpack";
import { expect, it } from "vitest";
import { contiguousRunEnds } from "../../src/connector/direct/contiguous-runs.ts";
import { planSender } from "../../src/connector/direct/sender-plan.ts";
import {
  decodeTransferReply,
  decodeTransferRequest,
  encodeTransferReply,
  encodeTransferRequest,
} from "../../src/connector/direct/transfer-messages.ts";
import { MooncakeKvError } from "../../src/errors.ts";

const small = fc.nat(0xffff_ffff);
/** As decoded: a bigint only where a number cannot hold it. */
const wire = fc.oneof(
  small,
  fc.maxSafeNat(),
  fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
  fc.integer({ min: -1, max: 4096 }),
);
const name = fc.string({ minLength: 1, maxLength: 12 }).map((text) => `req-${text}`);
const blockLists = fc.array(fc.array(small, { maxLength: 5 }), { maxLength: 3 });

const request = fc.record({
  hostname: fc.string(),
  port: fc.nat(65_535),
  tpSize: fc.integer({ min: 1, max: 64 }),
  tpRank: fc.nat(63),
  requests: fc.uniqueArray(
    fc.record({ requestId: name, transferId: fc.string(), blockIds: blockLists }),
    { maxLength: 4, selector: ({ requestId }) => requestId },
  ),
  baseAddresses: fc.array(wire, { maxLength: 4 }),
  blockBytes: fc.array(wire, { maxLength: 4 }),
  copyBytes: fc.array(wire, { maxLength: 4 }),
  layerNames: fc.array(fc.string(), { maxLength: 4 }),
  layerIndices: fc.array(fc.nat(200), { maxLength: 4 }),
  groups: fc.array(fc.integer({ min: -1, max: 8 }), { maxLength: 4 }),
  sharedGroups: blockLists,
  rowOffsets: fc.array(wire, { maxLength: 4 }),
  ppSize: fc.integer({ min: 1, max: 8 }),
  layoutId: wire.filter((id) => id >= 0),
});
const names = fc.option(fc.array(name, { maxLength: 4 }));
const reply = fc.record({
  status: fc.nat(3),
  doneRequests: names,
  failedRequests: names,
  message: fc.option(fc.string()),
  layoutId: wire.filter((id) => id >= 0),
});

it("requests and replies arrive as they were sent", () => {
  fc.assert(
    fc.property(request, reply, (asked, answered) => {
      expect(decodeTransferRequest(encodeTransferRequest(asked))).toEqual(asked);
      expect(decodeTransferReply(encodeTransferReply(answered))).toEqual(answered);
    }),
  );
});

it("refuses what is no message with an error of its own", () => {
  const values = fc.dictionary(
    fc.constantFrom("status", "remote_port", "req_blocks", "layout_id", "ok_reqs", "block_lens"),
    fc.oneof(
      fc.string(),
      fc.double(),
      fc.constant(null),
      fc.array(fc.string()),
      fc.object({ maxDepth: 2 }),
    ),
  );
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    values.map((map) => encode(map)),
  );
  fc.assert(
    fc.property(bytes, (given) => {
      expect(() => decodeTransferRequest(given)).toThrow(MooncakeKvError);
      try {
        expect(decodeTransferReply(given).status).toBeGreaterThanOrEqual(0);
      } catch (error) {
        expect(error).toBeInstanceOf(MooncakeKvError);
      }
    }),
    { numRuns: 500 },
  );
});

it("writes every byte of a decode rank's block once", () => {
  const size = fc.constantFrom(1, 2, 4, 8);
  fc.assert(
    fc.property(
      size,
      size,
      fc.constantFrom(1, 2, 4, 8, 16),
      (localTpSize, remoteTpSize, kvHeads) => {
        const headBytes = 3;
        const bytesOf = (tpSize: number): number => Math.max(kvHeads / tpSize, 1) * headBytes;
        for (let remoteTpRank = 0; remoteTpRank < remoteTpSize; remoteTpRank++) {
          const written: number[] = Array.from({ length: bytesOf(remoteTpSize) }, () => -1);
          for (const localTpRank of senders(localTpSize, remoteTpSize, remoteTpRank)) {
            const plan = planSender({
              localTpRank,
              localTpSize,
              remoteTpRank,
              remoteTpSize,
              localBytes: bytesOf(localTpSize),
              remoteBytes: bytesOf(remoteTpSize),
              localReplicated: localTpSize > kvHeads,
              kvHeads,
            });
            if (plan === null || !plan.sends) continue;
            for (let byte = 0; byte < plan.bytes; byte++) {
              const at = plan.remoteOffset + byte;
              expect(written[at]).toBe(-1);
              // Which byte of the whole model's block this is.
              const firstHead = Math.floor((localTpRank * kvHeads) / localTpSize);
              written[at] = firstHead * headBytes + plan.localOffset + byte;
            }
          }
          const firstHead = Math.floor((remoteTpRank * kvHeads) / remoteTpSize);
          expect(written).toEqual(written.map((_, byte) => firstHead * headBytes + byte));
        }
      },
    ),
  );
});

it("cuts runs exactly where either side jumps", () => {
  const steps = fc.array(fc.tuple(fc.constantFrom(1, 1, 2), fc.constantFrom(1, 1, 3)), {
    maxLength: 30,
  });
  fc.assert(
    fc.property(steps, (jumps) => {
      const from = [5];
      const to = [9];
      const wanted: number[] = [];
      jumps.forEach(([left, right], index) => {
        from.push((from.at(-1) ?? 0) + left);
        to.push((to.at(-1) ?? 0) + right);
        if (left !== 1 || right !== 1) wanted.push(index + 1);
      });
      expect(contiguousRunEnds(from, to)).toEqual([...wanted, from.length]);
    }),
  );
  expect(contiguousRunEnds([], [])).toEqual([]);
});

it("refuses sizes that cannot be paired", () => {
  const pair = { localTpRank: 0, remoteTpRank: 0, localBytes: 6, remoteBytes: 6 };
  const sizes = { localTpSize: 2, remoteTpSize: 3, localReplicated: false, kvHeads: null };
  expect(planSender({ ...pair, ...sizes })).toBeNull();
});

/** The prefill ranks that a decode rank is paired with. */
function senders(localTpSize: number, remoteTpSize: number, remoteTpRank: number): number[] {
  if (localTpSize < remoteTpSize) return [Math.floor(remoteTpRank / (remoteTpSize / localTpSize))];
  const each = localTpSize / remoteTpSize;
  return Array.from({ length: each }, (_, index) => remoteTpRank * each + index);
}
