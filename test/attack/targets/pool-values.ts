/** What a member reads from the pool and from other processes: identities, events, lookups on the socket. */
import { compareIdentities } from "../../../src/connector/identity/compare.ts";
import { poolIdentity } from "../../../src/connector/identity/identity.ts";
import type { IdentityInput } from "../../../src/connector/identity/identity.ts";
import { decodeIdentity, encodeIdentity } from "../../../src/connector/identity/identity-value.ts";
import {
  decodeLookupReply,
  decodeWireRequest,
  encodeLookupReply,
  encodeLookupRequest,
} from "../../../src/connector/lookup-wire.ts";
import { ZmtpConnection } from "../../../src/connector/zmtp.ts";
import { decodeBatch } from "../../../src/events/decode-batch.ts";
import { KvEventEncoder } from "../../../src/events/encode-batch.ts";
import { normalizeKvCacheConfig } from "../../../src/config/kv-cache-normalize.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateBytes, mutateValue } from "../mutate.ts";

const CACHE = normalizeKvCacheConfig({
  modelName: "org/model",
  dtype: "float16",
  blockSize: 16,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 2, headSize: 8 },
  blockCount: 4,
});
const IDENTITY = poolIdentity({
  kvCache: CACHE,
  cachePrefix: "",
  noneHash: new Uint8Array(32),
} satisfies IdentityInput);

const identities: Target = {
  name: "identity of the pool",
  open: () => {
    const published = encodeIdentity(IDENTITY);
    const json: unknown = JSON.parse(Buffer.from(published).toString());
    const look = (value: Uint8Array): void => {
      const read = decodeIdentity(value);
      if (read.ok) compareIdentities(IDENTITY, read.identity);
    };
    return {
      try: (random): Attempt => {
        const value =
          random.below(2) === 0
            ? mutateBytes(published, random)
            : Buffer.from(JSON.stringify(mutateValue(json, random)) ?? "");
        return { input: value.toString("latin1"), bytes: value.length, run: () => look(value) };
      },
      heal: () => {
        const read = decodeIdentity(published);
        if (!read.ok) throw new Error(read.problem);
        const { keys, bytes } = compareIdentities(IDENTITY, read.identity);
        if (keys.length + bytes.length > 0) throw new Error("an identity differs from itself");
      },
    };
  },
};

const LIMITS = { messageBytesMax: 1 << 20, framesMax: 64 };
/** What a client of the lookup socket sends: greeting, READY and a lookup. */
function session(): Buffer {
  const sent: Uint8Array[] = [];
  const nothing = (): void => undefined;
  const ends = {
    write: (bytes: Uint8Array) => void sent.push(bytes.slice()),
    ready: nothing,
    message: nothing,
  };
  const client = new ZmtpConnection("DEALER", ends, LIMITS);
  const request = encodeLookupRequest({ tokens: 32, hashBytes: 32, hashes: new Uint8Array(64) });
  client.send([new Uint8Array(0), ...request]);
  return Buffer.concat(sent);
}

const lookups: Target = {
  name: "lookup frames",
  open: () => {
    const good = session();
    const receive = (bytes: Uint8Array, piece: number): number => {
      let messages = 0;
      const server = new ZmtpConnection(
        "REP",
        {
          write: () => undefined,
          ready: () => undefined,
          message: (frames) => {
            messages++;
            decodeWireRequest(frames.slice(1));
          },
        },
        LIMITS,
      );
      for (let at = 0; at < bytes.length; at += piece) {
        server.receive(bytes.subarray(at, at + piece));
        if (server.heldBytes > 2 * LIMITS.messageBytesMax + (1 << 17))
          throw new Error(`a peer holds ${server.heldBytes} bytes`);
      }
      return messages;
    };
    return {
      try: (random): Attempt => {
        const bytes = mutateBytes(good, random);
        const piece = 1 + random.below(bytes.length + 1);
        return {
          input: bytes.toString("hex"),
          bytes: bytes.length,
          run: () => receive(bytes, piece),
        };
      },
      heal: () => {
        if (receive(good, 7) !== 1) throw new Error("a right lookup is not read");
      },
    };
  },
};

const replies: Target = {
  name: "lookup replies",
  open: () => {
    const good = encodeLookupReply({
      hitTokens: 32,
      tails: [
        [0, 32],
        [1, 16],
      ],
    });
    return {
      try: (random): Attempt => {
        const bytes = mutateBytes(good, random);
        return {
          input: bytes.toString("hex"),
          bytes: bytes.length,
          run: () => decodeLookupReply(bytes),
        };
      },
      heal: () => {
        if (decodeLookupReply(good)?.hitTokens !== 32) throw new Error("a right reply is not read");
      },
    };
  },
};

const events: Target = {
  name: "KV event batches",
  open: () => {
    const good = new KvEventEncoder().encode({
      timestampSeconds: 1,
      dataParallelRank: 0,
      events: [
        {
          type: "BlockStored",
          blockHashes: [1n, 2n],
          parentBlockHash: null,
          tokenIds: [1, 2],
          blockSize: 1,
          loraId: null,
          medium: "cpu",
          loraName: null,
          extraKeys: [["salt"], null],
        },
        { type: "BlockRemoved", blockHashes: [new Uint8Array(32)], medium: "cpu" },
        { type: "AllBlocksCleared" },
      ],
    });
    return {
      try: (random): Attempt => {
        const bytes = mutateBytes(good, random);
        return { input: bytes.toString("hex"), bytes: bytes.length, run: () => decodeBatch(bytes) };
      },
      heal: () => {
        if (decodeBatch(good).events.length !== 3) throw new Error("a right batch is not read");
      },
    };
  },
};

export const POOL_VALUES: readonly Target[] = [identities, lookups, replies, events];
