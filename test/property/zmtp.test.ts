/**
 * Goal: a ZMTP connection gives the other end the same messages, however the bytes are cut on their way; what no peer sends is
 * refused with a typed error, and never with any other.
 * Method: two ends of our own against each other with random messages and cuts, and random bytes. (lookup-socket.test.ts has
 * libzmq at the other end.)
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { splitEnvelope, ZmtpConnection } from "../../src/connector/zmtp.ts";
import type { ZmtpSocketType } from "../../src/connector/zmtp.ts";
import { MooncakeKvError } from "../../src/errors.ts";

const LIMITS = { messageBytesMax: 12_000, framesMax: 6 };

interface End {
  readonly connection: ZmtpConnection;
  readonly written: number[];
  readonly messages: string[][];
}
function end(type: ZmtpSocketType): End {
  const written: number[] = [];
  const messages: string[][] = [];
  const connection = new ZmtpConnection(
    type,
    {
      write: (bytes) => void written.push(...bytes),
      ready: () => undefined,
      message: (frames) =>
        void messages.push(frames.map((frame) => Buffer.from(frame).toString("hex"))),
    },
    LIMITS,
  );
  return { connection, written, messages };
}

/** Hands over what `from` has written, in pieces. */
function deliver(from: End, to: End, cuts: readonly number[]): void {
  const bytes = Uint8Array.from(from.written.splice(0));
  let at = 0;
  for (let turn = 0; at < bytes.length; turn++) {
    const size = Math.max(1, cuts.length === 0 ? bytes.length : (cuts[turn % cuts.length] ?? 1));
    to.connection.receive(bytes.subarray(at, at + size));
    at += size;
  }
}

const frame = fc.oneof(
  fc.uint8Array({ maxLength: 20 }),
  fc.uint8Array({ minLength: 250, maxLength: 260 }),
  fc.uint8Array({ minLength: 1000, maxLength: 2000 }),
);
const message = fc.array(frame, { minLength: 1, maxLength: 6 });
const cuts = fc.array(fc.integer({ min: 1, max: 300 }), { maxLength: 8 });

it("messages arrive whole and in order", () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 8 }), cuts, (sent, pieces) => {
      const [client, server] = [end("DEALER"), end("REP")];
      deliver(server, client, pieces);
      deliver(client, server, pieces);
      expect([client.connection.ready, server.connection.ready]).toEqual([true, true]);
      for (const frames of sent) client.connection.send(frames);
      deliver(client, server, pieces);
      expect(server.messages).toEqual(
        sent.map((frames) => frames.map((one) => Buffer.from(one).toString("hex"))),
      );
    }),
    { numRuns: 300 },
  );
});

it("bytes of strangers are refused, or waited for", () => {
  let refused = 0;
  const random = fc.uint8Array({ minLength: 1, maxLength: 200 });
  fc.assert(
    fc.property(random, fc.boolean(), (bytes, afterGreeting) => {
      const [client, server] = [end("DEALER"), end("REP")];
      if (afterGreeting) deliver(client, server, []);
      try {
        server.connection.receive(bytes);
      } catch (error) {
        expect(error).toBeInstanceOf(MooncakeKvError);
        refused++;
      }
    }),
    { numRuns: 1000 },
  );
  expect(refused).toBeGreaterThan(100);
});

it("a peer of the wrong kind, of another security, or with too much is refused", () => {
  const rep = end("REP");
  expect(() => deliver(end("REP"), rep, [])).toThrow(/does not talk to a REP socket/);
  const greeted = end("DEALER");
  greeted.written[12] = 80; // "PULL" instead of "NULL".
  expect(() => deliver(greeted, end("REP"), [7])).toThrow(/mechanism/);
  const old = end("DEALER");
  old.written[10] = 1;
  expect(() => deliver(old, end("REP"), [])).toThrow(/version/);
  const early = end("REP");
  const hello = end("DEALER").written;
  early.connection.receive(Uint8Array.from(hello.slice(0, 64)));
  expect(() => early.connection.receive(Uint8Array.of(0, 1, 9))).toThrow(/handshake/);
  for (const frames of [
    [new Uint8Array(12_001)],
    Array.from({ length: 3 }, () => new Uint8Array(4001)),
    Array.from({ length: 7 }, () => new Uint8Array(1)),
  ]) {
    const [client, server] = [end("DEALER"), end("REP")];
    deliver(client, server, []);
    client.connection.send(frames);
    expect(() => deliver(client, server, [])).toThrow(MooncakeKvError);
  }
});

it("a message over the bound is refused by the head of its frame, before its bytes come", () => {
  const [client, server] = [end("DEALER"), end("REP")];
  deliver(client, server, []);
  // A frame of 4 GiB and no byte of it; a command of 5,000 bytes.
  const long = Uint8Array.of(2, 0, 0, 0, 1, 0, 0, 0, 0);
  expect(() => server.connection.receive(long)).toThrow(/message.*is longer than 12000 bytes/);
  const other = end("REP");
  deliver(end("DEALER"), other, []);
  const command = Uint8Array.of(6, 0, 0, 0, 0, 0, 0, 0x13, 0x88);
  expect(() => other.connection.receive(command)).toThrow(/command.*is longer than 4096 bytes/);
});

it("the memory of a long message is given back when it has been read", () => {
  const written: Uint8Array[] = [];
  const limits = { messageBytesMax: 8 * 1024 * 1024, framesMax: 2 };
  let messages = 0;
  const server = new ZmtpConnection(
    "REP",
    { write: () => undefined, ready: () => undefined, message: () => void messages++ },
    limits,
  );
  const client = new ZmtpConnection(
    "DEALER",
    {
      write: (bytes) => void written.push(bytes),
      ready: () => undefined,
      message: () => undefined,
    },
    limits,
  );
  for (const bytes of written.splice(0)) server.receive(bytes);
  const small = server.heldBytes;
  let most = 0;
  for (let round = 0; round < 2; round++) {
    client.send([new Uint8Array(4 * 1024 * 1024)]);
    const bytes = Buffer.concat(written.splice(0));
    // The last piece has the beginning of the next message, too.
    for (let at = 0; at < bytes.byteLength; at += 65_536) {
      server.receive(bytes.subarray(at, at + 65_536));
      most = Math.max(most, server.heldBytes);
    }
    server.receive(Uint8Array.of(0, 3, 1));
    expect(server.heldBytes).toBe(small);
    server.receive(Uint8Array.of(2, 3));
  }
  expect(messages).toBe(4);
  expect(most).toBeGreaterThanOrEqual(4 * 1024 * 1024);
  expect(most).toBeLessThanOrEqual(8 * 1024 * 1024 + 65_536);
});

it("a PING is answered with its context", () => {
  const [client, server] = [end("DEALER"), end("REP")];
  deliver(client, server, []);
  server.written.length = 0;
  server.connection.receive(Uint8Array.of(4, 9, 4, 80, 73, 78, 71, 0, 50, 7, 8));
  expect(Buffer.from(server.written)).toEqual(Buffer.from([4, 7, 4, 80, 79, 78, 71, 7, 8]));
});

it("the way back ends with the first empty frame", () => {
  const [id, empty, body] = [Uint8Array.of(1), new Uint8Array(0), Uint8Array.of(2)];
  expect(splitEnvelope([id, empty, body, empty])).toEqual({
    envelope: [id, empty],
    body: [body, empty],
  });
  expect(splitEnvelope([id, body])).toBeNull();
});
