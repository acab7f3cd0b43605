/**
 * Goal: no peer of the lookup server makes it hold more memory than its bounds: a long message, too many of them or unread answers end
 * that connection, with the reason in the log; a quick asker is read from more slowly and loses nothing; memory is given back.
 * Method: the real server with small bounds on a Unix socket, asked by libzmq's DEALER and by this project's own ZMTP.
 */
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { Dealer } from "zeromq";
import {
  CONNECTION_LIMITS,
  type ConnectionLimits,
} from "../../src/actors/hosts/lookup-rpc/lookup-connection.ts";
import {
  LookupServer,
  type LookupServerOptions,
} from "../../src/actors/hosts/lookup-rpc/lookup-server.ts";
import { claimSocketPath } from "../../src/actors/hosts/lookup-rpc/socket-path.ts";
import { encodeLookupRequest } from "../../src/connector/lookup-wire.ts";
import { ZmtpConnection } from "../../src/connector/zmtp.ts";
import { LogLines } from "./support/log-lines.ts";

const KIBIBYTE = 1024;
/** A connection that holds no message may keep a buffer of so much. */
const KEPT_BYTES_MAX = 64 * KIBIBYTE;
const WAIT = { timeout: 120_000, interval: 5 };
const LIMITS: ConnectionLimits = {
  messageBytesMax: 64 * KIBIBYTE,
  framesMax: 8,
  heldBytesMax: 512 * KIBIBYTE,
  waitingMax: 50,
  answerBytesMax: 16 * KIBIBYTE,
  handshakeTimeoutMs: 60_000,
};
let folder = "";
let path = "";
let log: LogLines;
let counted: string[] = [];
const ends: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lookup-bounds-"));
  path = join(folder, "socket");
  log = new LogLines();
  counted = [];
});
afterEach(() => {
  for (const end of ends.splice(0)) end();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(options: Partial<LookupServerOptions> = {}): Promise<LookupServer> {
  const server = await LookupServer.open({
    path,
    lookup: (_, answered) => answered({ hitTokens: 0, tails: [] }, null),
    reset: async () => true,
    count: (outcome) => counted.push(outcome),
    nowMs: () => performance.now(),
    log,
    limits: LIMITS,
    ...options,
  });
  ends.push(() => server.close());
  return server;
}
function lookup(hashBytes: number): Buffer[] {
  const hashes = new Uint8Array(hashBytes);
  return encodeLookupRequest({ tokens: 16, hashBytes: 32, hashes }).map((part) =>
    Buffer.from(part),
  );
}
function dealer(): Dealer {
  const socket = new Dealer({ linger: 0, sendHighWaterMark: 10_000, reconnectInterval: 60_000 });
  socket.connect(`ipc://${path}`);
  ends.push(() => socket.close());
  return socket;
}
/** A peer whose socket is in the test's hands: it is ready when this resolves. */
async function peer(): Promise<{ socket: Socket; zmtp: ZmtpConnection; closed: Promise<void> }> {
  const socket = connect(path);
  ends.push(() => socket.destroy());
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => undefined);
  let zmtp: ZmtpConnection | undefined;
  await new Promise<void>((resolve) => {
    const write = (bytes: Uint8Array): void => void socket.write(bytes);
    const made = new ZmtpConnection(
      "DEALER",
      { write, ready: resolve, message: () => undefined },
      LIMITS,
    );
    zmtp = made;
    socket.on("data", (bytes) => made.receive(bytes));
  });
  if (zmtp === undefined) throw new Error("no connection");
  return { socket, zmtp, closed };
}
function reasons(): string[] {
  return log.lines
    .filter(({ text }) => text === "a connection to the lookup socket is cut off")
    .map(({ fields }) => (fields as { problem: string }).problem);
}

test("the bounds leave room for a lookup of a million tokens, and for 32 of them on the way", () => {
  const bytes = (1_000_000 / 16) * 32;
  expect(CONNECTION_LIMITS.messageBytesMax).toBeGreaterThan(4 * bytes);
  // Reading pauses; it is only cut off for what it holds when all together hold too much.
  expect(CONNECTION_LIMITS.waitingMax).toBeGreaterThan(32);
  // A message on its way fits whatever waits: its buffer doubles, and its frames are copied.
  expect(CONNECTION_LIMITS.heldBytesMax).toBeGreaterThan(3 * CONNECTION_LIMITS.messageBytesMax);
});

test("a message over the bound ends its connection, and no other", async () => {
  await serve();
  const [bad, good] = [await peer(), dealer()];
  bad.zmtp.send([new Uint8Array(0), ...lookup(64 * KIBIBYTE)]);
  await bad.closed;
  expect(reasons()).toEqual([expect.stringMatching(/message.*longer than 65536 bytes/)]);
  expect(counted).toEqual(["refused"]);
  await good.send(["", ...lookup(32 * KIBIBYTE)]);
  expect((await good.receive()).at(-1)?.toString("hex")).toBe("00000000");
});

test("a quick asker is read from more slowly: all is answered, in order, and little held", async () => {
  let most = 0;
  const server = await serve({
    lookup: ({ tokens }, answered) => {
      most = Math.max(most, server.heldBytes);
      setTimeout(() => answered({ hitTokens: tokens, tails: [] }, null), 1);
    },
  });
  const socket = dealer();
  const count = 200;
  for (let index = 0; index < count; index++) {
    const hashes = new Uint8Array(48 * KIBIBYTE);
    const request = encodeLookupRequest({ tokens: index, hashBytes: 32, hashes });
    await socket.send(["", ...request.map((part) => Buffer.from(part))]);
  }
  for (let index = 0; index < count; index++)
    expect((await socket.receive()).at(-1)?.readUInt32BE(0)).toBe(index);
  expect(reasons()).toEqual([]);
  // Nine of the ten megabytes stayed with the asker: 64 KiB are read at a time.
  expect(most).toBeGreaterThan(256 * KIBIBYTE);
  expect(most).toBeLessThan(LIMITS.heldBytesMax + 128 * KIBIBYTE);
  await vi.waitUntil(() => server.heldBytes <= KEPT_BYTES_MAX, WAIT);
});

test("too many messages that wait end the connection", async () => {
  const waiting: (() => void)[] = [];
  await serve({
    lookup: (_, answered) => void waiting.push(() => answered({ hitTokens: 0, tails: [] }, null)),
  });
  const { zmtp, closed } = await peer();
  for (let index = 0; index < 60; index++) zmtp.send([new Uint8Array(0), ...lookup(32)]);
  await closed;
  expect(reasons()).toEqual(["more than 50 of its messages wait for an answer"]);
  // The engine answers what nobody waits for any more; nothing of the rest is asked.
  for (const answer of waiting) answer();
  expect(waiting).toHaveLength(1);
});

test("a peer that does not read its answers is cut off", async () => {
  await serve({
    lookup: (_, answered) =>
      answered({ hitTokens: 16, tails: Array.from({ length: 100 }, (_, at) => [at, 16]) }, null),
  });
  const { socket, zmtp, closed } = await peer();
  socket.pause();
  const asking = setInterval(() => zmtp.send([new Uint8Array(0), ...lookup(32)]), 1);
  ends.push(() => clearInterval(asking));
  for (let index = 0; index < 2000; index++) zmtp.send([new Uint8Array(0), ...lookup(32)]);
  await vi.waitUntil(() => reasons().length > 0, WAIT);
  clearInterval(asking);
  socket.resume();
  await closed;
  expect(reasons()).toEqual(["it has not read more than 16384 bytes of answers"]);
});

test("what all connections hold together is bounded: the one that passes it goes, the others stay", async () => {
  const waiting: (() => void)[] = [];
  const server = await serve({
    heldBytesMax: 256 * KIBIBYTE,
    lookup: (_, answered) => void waiting.push(() => answered({ hitTokens: 0, tails: [] }, null)),
  });
  const first = dealer();
  for (let index = 0; index < 3; index++) await first.send(["", ...lookup(48 * KIBIBYTE)]);
  await vi.waitUntil(() => server.heldBytes > 144 * KIBIBYTE, WAIT);
  const second = await peer();
  for (let index = 0; index < 3; index++)
    second.zmtp.send([new Uint8Array(0), ...lookup(48 * KIBIBYTE)]);
  await second.closed;
  expect(reasons()).toEqual(["all connections together hold too many bytes"]);
  for (let answered = 0; answered < 3; answered++) {
    await vi.waitUntil(() => waiting.length > 0, WAIT);
    for (const answer of waiting.splice(0)) answer();
    await first.receive();
  }
  await vi.waitUntil(() => server.heldBytes <= KEPT_BYTES_MAX, WAIT);
});

/** A connection that says nothing. */
async function silent(): Promise<{ socket: Socket; closed: Promise<void> }> {
  const socket = connect(path);
  ends.push(() => socket.destroy());
  socket.on("error", () => undefined);
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // The server's hello has to be read, or the end is not seen.
  socket.resume();
  await new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  return { socket, closed };
}

test("connections that say nothing are cut off, and shut nobody out meanwhile", async () => {
  await serve({ limits: { ...LIMITS, handshakeTimeoutMs: 300 } });
  const peers = await Promise.all(Array.from({ length: 70 }, () => silent()));
  const asker = dealer();
  await asker.send(["", ...lookup(32)]);
  expect(await asker.receive()).toHaveLength(2);
  await Promise.all(peers.map(({ closed }) => closed));
  expect(reasons().some((reason) => reason.includes("300 ms"))).toBe(true);
  // Who has said hello may be silent for as long as it likes.
  await asker.send(["", ...lookup(32)]);
  expect(await asker.receive()).toHaveLength(2);
});

test("of too many that said hello the most silent one goes; with all of them waiting the new one does", async () => {
  const held: (() => void)[] = [];
  await serve({
    connectionsMax: 2,
    lookup: (_, answered) => held.push(() => answered({ hitTokens: 0, tails: [] }, null)),
  });
  const [first, second] = [await peer(), await peer()];
  second.zmtp.send([new Uint8Array(0), ...lookup(32)]);
  await vi.waitFor(() => expect(held).toHaveLength(1), WAIT);
  const third = await peer();
  await first.closed;
  third.zmtp.send([new Uint8Array(0), ...lookup(32)]);
  await vi.waitFor(() => expect(held).toHaveLength(2), WAIT);
  const fourth = await silent();
  await fourth.closed;
  expect(reasons()).toEqual([
    "it asks nothing, and more than 2 are connected",
    "2 others wait for answers",
  ]);
  expect([second.socket.destroyed, third.socket.destroyed]).toEqual([false, false]);
});

test("only processes of the same user may connect", async () => {
  const before = process.umask(0);
  onTestFinished(() => void process.umask(before));
  await serve();
  expect(statSync(path).mode & 0o777).toBe(0o700);
});

test.each([
  ["a file", (at: string) => writeFileSync(at, "precious")],
  ["a link to nothing", (at: string) => symlinkSync(`${at}.none`, at)],
  ["a folder", (at: string) => mkdirSync(at)],
])("%s at the socket's path stays, and is named", async (_what, make) => {
  make(path);
  await expect(claimSocketPath(path)).rejects.toMatchObject({ code: "INVALID_VALUE", value: path });
  expect(lstatSync(path, { throwIfNoEntry: false })).toBeDefined();
});
