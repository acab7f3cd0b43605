/**
 * Goal: other processes' lookups are answered from their own hashes, with hit and tails as vLLM sends them; what goes wrong is
 * answered with 0 tokens, named and in time, and slots come back only when the engine has given everything back.
 * Method: the real lookup actor on tables of its own and the simulated engine on a virtual clock.
 */
import { describe, expect, test } from "vitest";
import {
  ForeignLookups,
  type ForeignFailure,
} from "../../src/actors/lookup/foreign/foreign-lookups.ts";
import { hitRules } from "../../src/keys/coordinator/hit-rules.ts";
import type { LookupReply, LookupRequest } from "../../src/connector/lookup-wire.ts";
import {
  MEMBERSHIP_CLOSED,
  MEMBERSHIP_OPEN,
  MEMBERSHIP_UNKNOWN,
} from "../../src/connector/membership.ts";
import { EngineCode } from "../../src/store/engine.ts";
import { ActorWorld, range, type WorldOptions } from "./store-world.ts";

const DIGEST_BYTES = 32;

class ForeignBench {
  readonly world: ActorWorld;
  readonly answers: [LookupReply, ForeignFailure | null][] = [];
  foreign: ForeignLookups;

  membership = MEMBERSHIP_OPEN;
  readonly #timeoutMs: number;

  constructor(options: WorldOptions = {}, timeoutMs = 50) {
    this.#timeoutMs = timeoutMs;
    this.world = new ActorWorld(options);
    this.foreign = this.start(1);
  }

  start(epoch: number): ForeignLookups {
    const { world } = this;
    this.foreign = new ForeignLookups(
      {
        tables: world.tables,
        rules: world.rules,
        keySpace: world.workers[0] ?? expect.unreachable("no worker"),
        digestBytes: DIGEST_BYTES,
        timeoutMs: this.#timeoutMs,
        readMembership: () => this.membership,
      },
      world.context(epoch),
    );
    return this.foreign;
  }

  ask(request: Omit<LookupRequest, "kind">): void {
    this.foreign.ask({ kind: "lookup", ...request }, (reply, failure) =>
      this.answers.push([reply, failure]),
    );
  }

  run(): void {
    const { clock } = this.world;
    for (let turn = 0; turn < 1000; turn++) {
      clock.runDue();
      const wanted = this.foreign.step();
      const next = Math.min(clock.nextDueMs(), wanted);
      if (next === Infinity) return;
      clock.nowMs = Math.max(clock.nowMs, next);
    }
    throw new Error("does not come to rest");
  }

  /** Puts values under the keys of these hashes. */
  store(marks: readonly number[], group = 0): void {
    for (const mark of marks)
      this.world.pool.put(`m@tp_rank:0@group:${group}@${hex(mark)}`, new Uint8Array(4));
  }
}

function hash(mark: number): Buffer {
  return Buffer.alloc(DIGEST_BYTES, mark + 1);
}
function hex(mark: number): string {
  return hash(mark).toString("hex");
}
function hashes(marks: readonly number[]): Omit<LookupRequest, "kind" | "tokens"> {
  return { hashBytes: DIGEST_BYTES, hashes: Buffer.concat(marks.map(hash)) };
}

describe("answers", () => {
  test("the longest prefix of the hashes that came along, with each group's tail", () => {
    const bench = new ForeignBench({ dimensions: { groups: 2 } });
    bench.store(range(0, 7), 0);
    bench.store(range(0, 5), 1);
    bench.ask({ tokens: 41, ...hashes(range(0, 10)) });
    bench.run();
    const reply = {
      hitTokens: 20,
      tails: [
        [0, 20],
        [1, 20],
      ],
    };
    expect(bench.answers).toEqual([[reply, null]]);
    expect(bench.world.hashed).toEqual([]);
  });

  test("a hit ends inside a block that was stored under a later hash", () => {
    const groups = [
      { kind: "full" as const, spanTokens: 4 },
      { kind: "mamba" as const, spanTokens: 8 },
    ];
    const rules = hitRules({ groups, hashBlockSize: 4, cacheHitAlignmentTokens: 4 });
    const bench = new ForeignBench({ rules, dimensions: { groups: 2, blockSize: 8 } });
    bench.store([0, 1, 2], 0);
    bench.store([2], 1);
    bench.ask({ tokens: 17, ...hashes(range(0, 4)) });
    bench.run();
    expect(bench.answers).toMatchObject([[{ hitTokens: 12 }, null]]);
  });

  test("all tokens there: the last one is left to compute; none there and no hashes: 0", () => {
    const bench = new ForeignBench();
    bench.store(range(0, 4));
    for (const question of [
      { tokens: 3, hashBytes: 0, hashes: new Uint8Array(0) },
      { tokens: 16, ...hashes(range(0, 4)) },
      { tokens: 16, ...hashes(range(10, 14)) },
    ]) {
      bench.ask(question);
      bench.run();
    }
    expect(bench.answers.map(([{ hitTokens }, failure]) => [hitTokens, failure])).toEqual([
      [0, null],
      [12, null],
      [0, null],
    ]);
  });

  test("more hashes than a row holds: the answer is about those that it holds", () => {
    const bench = new ForeignBench({ dimensions: { tokensPerRequestMax: 40 } });
    bench.store(range(0, 30));
    bench.ask({ tokens: 4_000_000_000, ...hashes(range(0, 30)) });
    bench.run();
    expect(bench.answers).toMatchObject([[{ hitTokens: 36 }, null]]);
  });
});

describe("what goes wrong", () => {
  test("hashes of another length", () => {
    const bench = new ForeignBench();
    bench.ask({ tokens: 8, hashBytes: 16, hashes: new Uint8Array(32) });
    expect(bench.answers).toEqual([[{ hitTokens: 0, tails: [] }, "wrong_hashes"]]);
  });

  test("a pool that is not open to this member: nothing is found for others either", () => {
    const bench = new ForeignBench();
    bench.store(range(0, 4));
    for (const membership of [MEMBERSHIP_CLOSED, MEMBERSHIP_UNKNOWN, MEMBERSHIP_OPEN]) {
      bench.membership = membership;
      bench.ask({ tokens: 17, ...hashes(range(0, 4)) });
      bench.run();
    }
    expect(bench.answers).toMatchObject([
      [{ hitTokens: 0 }, "closed"],
      [{ hitTokens: 0 }, "closed"],
      [{ hitTokens: 16 }, null],
    ]);
  });

  test("an engine that cannot tell", () => {
    const bench = new ForeignBench();
    bench.store(range(0, 4));
    bench.world.faults = { keyResult: () => EngineCode.ENGINE_ERROR };
    bench.ask({ tokens: 17, ...hashes(range(0, 4)) });
    bench.run();
    expect(bench.answers).toEqual([[{ hitTokens: 0, tails: [] }, "engine_error"]]);
  });

  test("an engine that is too slow: answered at the deadline, and the slot is in use until the engine is done", () => {
    const bench = new ForeignBench({ dimensions: { requestSlots: 1 } });
    bench.store(range(0, 4));
    const question = { tokens: 17, ...hashes(range(0, 4)) };
    bench.ask(question);
    bench.foreign.step();
    // Time goes by and the engine does not get on.
    bench.world.clock.nowMs = 50;
    bench.foreign.step();
    expect(bench.answers).toMatchObject([[{ hitTokens: 0 }, "timeout"]]);
    bench.ask(question);
    expect(bench.answers).toMatchObject([{}, [{ hitTokens: 0 }, "busy"]]);
    bench.run();
    bench.ask(question);
    bench.run();
    expect(bench.answers).toMatchObject([{}, {}, [{ hitTokens: 16 }, null]]);
    expect(bench.answers).toHaveLength(3);
  });

  test("a successor has all slots again and goes on counting attempts", () => {
    const bench = new ForeignBench({ dimensions: { requestSlots: 2 }, delayMsMax: 20 });
    bench.store(range(0, 4));
    const question = { tokens: 17, ...hashes(range(0, 4)) };
    bench.ask(question);
    bench.ask(question);
    bench.foreign.step();
    // The predecessor is dead: its askers' connections ended with it.
    bench.start(2);
    bench.ask(question);
    bench.ask(question);
    bench.run();
    expect(bench.answers).toMatchObject([
      [{ hitTokens: 16 }, null],
      [{ hitTokens: 16 }, null],
    ]);
  });
});
