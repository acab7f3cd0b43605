/**
 * Goal: the two ends of the lookup socket speak with real ZeroMQ sockets, in vLLM's frames, and with each other; a peer that is
 * away, dumb, dead or not ZeroMQ costs nobody more than a bounded time and is told apart from a miss.
 * Method: both ends over Unix sockets in a folder of the test's own, against sockets of the zeromq package (libzmq, as vLLM's) and
 * against each other; requests and replies are vLLM's bytes from the golden file.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Dealer, Reply, Request } from "zeromq";
import { LookupClient } from "../../src/actors/hosts/lookup-rpc/lookup-client.ts";
import { LookupServer } from "../../src/actors/hosts/lookup-rpc/lookup-server.ts";
import type { LookupServerOptions } from "../../src/actors/hosts/lookup-rpc/lookup-server.ts";
import { claimSocketPath } from "../../src/actors/hosts/lookup-rpc/socket-path.ts";
import {
  OUTCOME_ENGINE_DOWN,
  OUTCOME_ENGINE_ERROR,
  OUTCOME_HIT,
  OUTCOME_TIMEOUT,
} from "../../src/actors/messages.ts";
import type { RemoteAnswer } from "../../src/actors/step.ts";
import type { LookupRequest } from "../../src/connector/lookup-wire.ts";
import { readVectors } from "../vectors/vectors.ts";

interface WireFile {
  readonly requests: readonly {
    readonly num_tokens: number;
    readonly hashes: readonly string[];
    readonly frames: readonly string[];
  }[];
  readonly responses: readonly {
    readonly hit_tokens: number;
    readonly tail_key_boundaries: readonly (readonly [number, number])[];
    readonly bytes: string;
  }[];
}
const wire = readVectors<WireFile>("lookup_wire");
const bytesOf = (hex: string): Buffer => Buffer.from(hex, "hex");

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
const DIGEST_BYTES = 32;
let folder = "";
let path = "";
const ends: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "lookup-socket-"));
  path = join(folder, "socket");
});
afterEach(() => {
  for (const end of ends.splice(0)) end();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(options: Partial<LookupServerOptions> = {}): Promise<string[]> {
  const counted: string[] = [];
  const server = await LookupServer.open({
    path,
    lookup: (_, answered) => answered({ hitTokens: 0, tails: [] }, null),
    reset: () => Promise.resolve(true),
    count: (outcome) => counted.push(outcome),
    nowMs: () => performance.now(),
    log: SILENT,
    ...options,
  });
  ends.push(() => server.close());
  return counted;
}

function ask(timeoutMs = 5_000): { client: LookupClient; answer: () => Promise<RemoteAnswer> } {
  let wake = (): void => undefined;
  const client = new LookupClient({
    path,
    digestBytes: DIGEST_BYTES,
    timeoutMs,
    nowMs: () => performance.now(),
    log: SILENT,
    wake: () => wake(),
  });
  ends.push(() => client.close());
  const answer = async (): Promise<RemoteAnswer> => {
    for (;;) {
      const polled = client.poll();
      if (polled !== null) return polled;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  };
  return { client, answer };
}

function question(record: number, tokens: number, hex: readonly string[]) {
  const hashes = new Int32Array(hex.length * 8);
  Buffer.from(hashes.buffer).set(bytesOf(hex.join("")));
  return { record, tokens, hashes };
}

describe("the server", () => {
  it("answers vLLM's frames over a REQ socket with vLLM's bytes", async () => {
    const asked: LookupRequest[] = [];
    let next = 0;
    const counted = await serve({
      lookup: (request, answered) => {
        asked.push(request);
        const { hit_tokens: hitTokens, tail_key_boundaries: tails } = wire.responses[next]!;
        setImmediate(() => answered({ hitTokens, tails }, null));
      },
    });
    const socket = new Request({ linger: 0 });
    ends.push(() => socket.close());
    socket.connect(`ipc://${path}`);
    for (const [index, request] of wire.requests.entries()) {
      next = index % wire.responses.length;
      await socket.send(request.frames.map(bytesOf));
      const reply = await socket.receive();
      expect(reply.map((frame) => frame.toString("hex"))).toEqual([wire.responses[next]?.bytes]);
    }
    expect(
      asked.map(({ tokens, hashes }) => [tokens, Buffer.from(hashes).toString("hex")]),
    ).toEqual(wire.requests.map(({ num_tokens, hashes }) => [num_tokens, hashes.join("")]));
    expect(counted).toHaveLength(wire.requests.length);
  });

  it("empties the pool when it is told to, says so, and answers what is no request with the error byte", async () => {
    const outcomes = [true, false];
    const counted = await serve({ reset: async () => outcomes.shift() === true });
    const socket = new Request({ linger: 0 });
    ends.push(() => socket.close());
    socket.connect(`ipc://${path}`);
    const replies: string[] = [];
    for (const frames of [["reset"], ["reset"], ["drop"], ["lookup", "xx"], ["lookup"]]) {
      await socket.send(frames);
      replies.push((await socket.receive()).map((frame) => frame.toString("hex")).join());
    }
    expect(replies).toEqual(["01", "00", "00", "00", "00"]);
    expect(counted).toEqual(["reset", "reset_failed", "refused", "refused", "refused"]);
  });

  it("answers questions of one connection in turn, and of several without regard to each other", async () => {
    const waiting: (() => void)[] = [];
    await serve({
      lookup: ({ tokens }, answered) => {
        const reply = (): void => answered({ hitTokens: tokens, tails: [] }, null);
        if (tokens === 1) waiting.push(reply);
        else reply();
      },
    });
    const [slow, quick] = [new Dealer({ linger: 0 }), new Dealer({ linger: 0 })];
    ends.push(() => (slow.close(), quick.close()));
    const frames = (id: string, tokens: number): (string | Buffer)[] => {
      const number = Buffer.alloc(4);
      number.writeUInt32BE(tokens);
      return [id, "", "lookup", number, Buffer.alloc(2), ""];
    };
    for (const socket of [slow, quick]) socket.connect(`ipc://${path}`);
    await slow.send(frames("a", 1));
    await slow.send(frames("b", 2));
    await quick.send(frames("c", 3));
    expect((await quick.receive()).map(String)).toEqual(["c", "", "\0\0\0\x03"]);
    expect(waiting).toHaveLength(1);
    waiting[0]?.();
    expect((await slow.receive()).map(String)).toEqual(["a", "", "\0\0\0\x01"]);
    expect((await slow.receive()).map(String)).toEqual(["b", "", "\0\0\0\x02"]);
  });

  it("takes a question of two megabytes", async () => {
    let bytes = 0;
    await serve({
      lookup: ({ hashes }, answered) => {
        bytes = hashes.byteLength;
        answered({ hitTokens: 16, tails: [] }, null);
      },
    });
    const { client, answer } = ask();
    client.ask({ record: 1, tokens: 1 << 20, hashes: new Int32Array(8 * 65_536).fill(7) });
    expect(await answer()).toMatchObject({ record: 1, outcome: OUTCOME_HIT, hitTokens: 16 });
    expect(bytes).toBe(2 * 1024 * 1024);
  });

  it("cuts off what does not speak ZeroMQ, and goes on", async () => {
    const counted = await serve();
    const stranger = connect(path);
    stranger.write("GET / HTTP/1.1\r\n\r\n");
    stranger.resume();
    await new Promise((resolve) => stranger.once("close", resolve));
    const { client, answer } = ask();
    client.ask(question(3, 20, wire.requests[0]?.hashes ?? []));
    expect(await answer()).toMatchObject({ record: 3, outcome: OUTCOME_HIT, hitTokens: 0 });
    expect(counted).toEqual(["refused", "miss"]);
  });

  it("takes the place of a dead server and not that of a living one", async () => {
    await serve();
    await expect(claimSocketPath(path)).rejects.toMatchObject({
      code: "INVALID_VALUE",
      field: "kv_connector_extra_config.lookup_rpc_port",
    });
    for (const end of ends.splice(0)) end();
    const listening = new Reply({ linger: 0 });
    await listening.bind(`ipc://${path}`);
    await expect(claimSocketPath(path)).rejects.toMatchObject({ value: path });
    listening.close();
    await expect
      .poll(() =>
        claimSocketPath(path).then(
          () => "free",
          () => "taken",
        ),
      )
      .toBe("free");
    writeFileSync(path, "no socket");
    await expect(claimSocketPath(path)).rejects.toMatchObject({ value: path });
    await expect(serve()).rejects.toMatchObject({ code: "EADDRINUSE" });
    expect(readFileSync(path, "utf8")).toBe("no socket");
  });
});

describe("the client", () => {
  it("sends vLLM's frames to a REP socket and reads vLLM's replies", async () => {
    const socket = new Reply({ linger: 0 });
    ends.push(() => socket.close());
    await socket.bind(`ipc://${path}`);
    const requests = wire.requests.filter(
      ({ hashes }) => hashes.every((hash) => hash.length === 2 * DIGEST_BYTES) && hashes.length > 0,
    );
    expect(requests.length).toBeGreaterThan(1);
    const { client, answer } = ask();
    for (const [index, request] of requests.entries()) {
      const response = wire.responses[index % wire.responses.length]!;
      client.ask(question(index, request.num_tokens, request.hashes));
      const frames = await socket.receive();
      expect(frames.map((frame) => frame.toString("hex"))).toEqual(request.frames);
      await socket.send(bytesOf(response.bytes));
      const { hit_tokens: hitTokens, tail_key_boundaries: tails } = response;
      expect(await answer()).toEqual({ record: index, outcome: OUTCOME_HIT, hitTokens, tails });
    }
  });

  it("answers several questions in their order, up to its room", async () => {
    await serve({
      lookup: ({ tokens }, answered) => {
        const tails: [number, number][] = [[0, tokens]];
        setImmediate(() => answered({ hitTokens: tokens, tails }, null));
      },
    });
    const { client, answer } = ask();
    const room = client.room();
    for (let record = 0; record < room; record++)
      client.ask(question(record, record + 100, wire.requests[0]?.hashes ?? []));
    expect(client.room()).toBe(0);
    for (let record = 0; record < room; record++)
      expect(await answer()).toMatchObject({ record, hitTokens: record + 100 });
    expect(client.room()).toBe(room);
  });

  it("says at once that nobody is there, and finds a server that comes later", async () => {
    const { client, answer } = ask(60_000);
    client.ask(question(1, 20, []));
    expect(await answer()).toMatchObject({ record: 1, outcome: OUTCOME_ENGINE_DOWN });
    await serve();
    client.ask(question(2, 20, []));
    expect(await answer()).toMatchObject({ record: 2, outcome: OUTCOME_HIT });
  });

  it("gives up a server that does not answer, and everything that waits behind the question", async () => {
    const socket = new Reply({ linger: 0 });
    ends.push(() => socket.close());
    await socket.bind(`ipc://${path}`);
    const { client, answer } = ask(100);
    client.ask(question(1, 20, []));
    client.ask(question(2, 20, []));
    expect(await answer()).toMatchObject({ record: 1, outcome: OUTCOME_TIMEOUT });
    expect(await answer()).toMatchObject({ record: 2, outcome: OUTCOME_TIMEOUT });
    // It wakes up: whatever it still has of the questions that were given up, its answers are nobody's.
    const answering = async (): Promise<void> => {
      for await (const [, tokens] of socket) await socket.send(tokens ?? "");
    };
    const ended = answering();
    client.ask(question(3, 33, []));
    expect(await answer()).toEqual({ record: 3, outcome: OUTCOME_HIT, hitTokens: 33, tails: [] });
    client.close();
    socket.close();
    await ended;
  });

  it("notices a server that dies with a question, and answers that are none", async () => {
    let dying: Reply | undefined = new Reply({ linger: 0 });
    await dying.bind(`ipc://${path}`);
    const { client, answer } = ask(60_000);
    client.ask(question(1, 20, []));
    await dying.receive();
    dying.close();
    dying = undefined;
    expect(await answer()).toMatchObject({ record: 1, outcome: OUTCOME_ENGINE_DOWN });
    const socket = new Reply({ linger: 0 });
    ends.push(() => socket.close());
    // The dead server's file may go away only now.
    await expect
      .poll(() =>
        claimSocketPath(path).then(
          () => "free",
          () => "taken",
        ),
      )
      .toBe("free");
    await sleep(50);
    await socket.bind(`ipc://${path}`);
    client.ask(question(2, 20, []));
    await socket.receive();
    await socket.send(Buffer.from([1]));
    expect(await answer()).toMatchObject({ record: 2, outcome: OUTCOME_ENGINE_ERROR });
  });
});
