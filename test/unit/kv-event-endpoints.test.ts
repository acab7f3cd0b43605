/**
 * Goal: addresses, ports of ranks and sequence numbers follow vLLM's rules; what is missing or wrong is said with its remedy.
 * Method: the functions alone, with results of vLLM's own functions.
 */
import { describe, expect, test } from "vitest";
import { isBound, parseKvEventsConfig } from "../../src/config/kv-events-config.ts";
import { bindSocket, endpointOfRank, firstHostAddress } from "../../src/events/endpoints.ts";
import { KvEventPublisher } from "../../src/events/publisher.ts";
import { ReplayBuffer } from "../../src/events/replay-buffer.ts";
import {
  END_OF_REPLAY,
  isEndOfReplay,
  sequenceBytes,
  sequenceOf,
  SequenceTracker,
} from "../../src/events/sequence.ts";

describe("addresses", () => {
  test("each rank has a port of its own", () => {
    expect(endpointOfRank("tcp://*:5557", 0)).toBe("tcp://*:5557");
    expect(endpointOfRank("tcp://*:5557", 3)).toBe("tcp://*:5560");
    expect(endpointOfRank("tcp://[::1]:5557", 1)).toBe("tcp://[::1]:5558");
    expect(endpointOfRank("tcp://*:0", 3)).toBe("tcp://*:0");
    expect(endpointOfRank("inproc://cache", 2)).toBe("inproc://cache_dp2");
    expect(endpointOfRank("ipc:///run/events", 0)).toBe("ipc:///run/events");
    for (const endpoint of ["ipc:///run/events", "tcp://host", "tcp://*:!"])
      expect(() => endpointOfRank(endpoint, 1)).toThrow(
        expect.objectContaining({ code: "INVALID_VALUE", value: endpoint }),
      );
  });

  test("wildcards, paths and names are bound, others connected to", () => {
    for (const bound of ["tcp://*:5557", "tcp://[::]:5557", "ipc:///x", "inproc://x"])
      expect(isBound(bound), bound).toBe(true);
    for (const connected of ["tcp://127.0.0.1:5557", "tcp://router:5557"])
      expect(isBound(connected), connected).toBe(false);
  });

  test("any port is bound on the host's own address, which is told", async () => {
    const bound: string[] = [];
    const socket = {
      ipv6: false,
      lastEndpoint: "tcp://10.0.0.5:4711",
      bind: (address: string) => Promise.resolve(void bound.push(address)),
      connect: () => undefined,
    };
    const bind = (address: string, host = "10.0.0.5"): Promise<string> =>
      bindSocket("endpoint", socket, address, () => host);
    expect(await bind("tcp://*:0")).toBe("tcp://10.0.0.5:4711");
    expect(await bind("tcp://*:5557")).toBe("tcp://*:5557");
    expect(socket.ipv6).toBe(false);
    await bind("tcp://*:0", "fd00::5");
    expect(socket.ipv6).toBe(true);
    expect(bound).toEqual(["tcp://10.0.0.5:0", "tcp://*:5557", "tcp://[fd00::5]:0"]);
  });

  test("the host's address is the first that others can reach", () => {
    const address = (text: string, family: string, internal = false): object => ({
      address: text,
      family,
      internal,
    });
    const first = (...addresses: object[]): string =>
      firstHostAddress({ lo: [], eth0: addresses as never });
    const loopback = address("127.0.0.1", "IPv4", true);
    const link = address("fe80::1", "IPv6");
    const six = address("fd00::5", "IPv6");
    expect(first(loopback, link, six, address("10.0.0.5", "IPv4"))).toBe("10.0.0.5");
    expect(first(loopback, link, six)).toBe("fd00::5");
    expect(() => first(loopback, link)).toThrow(
      expect.objectContaining({ code: "MISSING", field: "VLLM_HOST_IP" }),
    );
  });
});

test("without the package the error has the command that installs it", async () => {
  const { config } = parseKvEventsConfig({ enable_kv_cache_events: true });
  const opening = KvEventPublisher.open({
    config,
    dataParallelRank: 0,
    hostAddress: () => "127.0.0.1",
    wallClockMs: () => 0,
    log: { info: () => undefined, warn: () => undefined },
    load: () => Promise.reject(new Error("Cannot find package 'zeromq'")),
  });
  await expect(opening).rejects.toMatchObject({
    code: "OPTIONAL_MISSING",
    field: "zeromq",
    remedy: expect.stringContaining("npm install zeromq@6.8.0") as string,
  });
});

test("sequence numbers are eight bytes, big-endian; -1 is none", () => {
  for (const [sequence, hex] of [
    [0, "0000000000000000"],
    [258, "0000000000000102"],
    [2 ** 32, "0000000100000000"],
    [Number.MAX_SAFE_INTEGER, "001fffffffffffff"],
  ] as const) {
    expect(Buffer.from(sequenceBytes(sequence)).toString("hex")).toBe(hex);
    expect(sequenceOf(sequenceBytes(sequence))).toBe(sequence);
  }
  expect(Buffer.from(END_OF_REPLAY).readBigInt64BE()).toBe(-1n);
  expect(isEndOfReplay(END_OF_REPLAY)).toBe(true);
  expect(isEndOfReplay(sequenceBytes(255))).toBe(false);
  expect(sequenceOf(END_OF_REPLAY)).toBeNull();
});

test("gaps and restarts show in the numbers", () => {
  const kinds = (first: number | null, ...sequences: number[]): unknown[] => {
    const tracker = new SequenceTracker(first);
    return sequences.map((sequence) => tracker.arrived(sequence));
  };
  const next = { kind: "next" };
  expect(kinds(null, 7, 8, 11, 12)).toEqual([next, next, { kind: "gap", from: 9, to: 11 }, next]);
  expect(kinds(0, 2, 3)).toEqual([{ kind: "gap", from: 0, to: 2 }, next]);
  expect(kinds(null, 5, 0, 1)).toEqual([next, { kind: "restart" }, next]);
});

describe("the buffer of a publisher", () => {
  const filled = (most: number, ...sequences: number[]): ReplayBuffer => {
    const buffer = new ReplayBuffer(most);
    for (const sequence of sequences) buffer.add(sequence, Uint8Array.of(sequence));
    return buffer;
  };
  const from = (buffer: ReplayBuffer, start: number): number[] =>
    [...buffer.from(start)].map(({ sequence, payload }) => {
      expect(payload).toEqual(Uint8Array.of(sequence));
      return sequence;
    });

  test("holds the last batches, also over numbers that were left out", () => {
    const buffer = filled(3, 0, 1, 2, 4, 7);
    expect(buffer.size).toBe(3);
    expect(from(buffer, 0)).toEqual([2, 4, 7]);
    expect(from(buffer, 3)).toEqual([4, 7]);
    expect(from(buffer, 8)).toEqual([]);
    expect(from(filled(0, 1, 2), 0)).toEqual([]);
  });

  test("a reader that takes its time sees none twice and none too new", () => {
    const buffer = filled(3, 0, 1, 2);
    const seen: number[] = [];
    for (const { sequence } of buffer.from(0)) {
      seen.push(sequence);
      if (sequence === 0) for (const newer of [3, 4]) buffer.add(newer, Uint8Array.of(newer));
    }
    expect(seen).toEqual([0, 2]);
  });
});
