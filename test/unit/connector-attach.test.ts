/**
 * Goal: the connector can change threads: a thread that lets go must be idle, a dead one loses its hold, and what it left in
 * flight keeps its slots, pages and pinned blocks until it is over. Method: real tables and mailboxes in one thread; the test
 * plays the actors, and a thread's death is that nobody calls its connector any more.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_COUNT,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  OUTCOME_HIT,
  type Message,
} from "../../src/actors/messages.ts";
import {
  LOOKUP_HIT,
  lookupWord,
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
} from "../../src/blocks/layout.ts";
import { RequestSlots } from "../../src/blocks/request-slots.ts";
import { Connector } from "../../src/connector/connector.ts";
import { releaseEndedOwner } from "../../src/connector/embedded/ownership.ts";
import { NO_TRACE } from "../../src/trace/events.ts";
import { BENCH_SETTINGS } from "./connector-bench.ts";
import { smallTables } from "./small-tables.ts";

const BLOCK = 16;
const SLOTS = 6;
const COUNTS = { kibibytes: 0, microseconds: 0 };

/** What outlives the thread that attaches. */
class House {
  readonly tables = smallTables({
    requestSlots: SLOTS,
    jobSlots: 12,
    tokensPerRequestMax: 256,
    tokensMax: 256 * SLOTS,
    hashBlockSize: BLOCK,
    blockSize: BLOCK,
    blockCount: 64,
  });
  readonly owner = new Int32Array(new SharedArrayBuffer(4));
  readonly mailboxes = Array.from({ length: ACTOR_COUNT }, () => {
    const words = new Int32Array(new SharedArrayBuffer(mailboxWords(64) * 4));
    Mailbox.initialise(words);
    return new Mailbox(words);
  });

  taken(actor: number): Message[] {
    const messages: Message[] = [];
    for (;;) {
      const message = this.mailboxes[actor]!.pop();
      if (message === null) return messages;
      messages.push(message);
    }
  }

  /** The lookup actor hashes what it is asked to, and finds `tokens` of everything in the pool. */
  lookUp(tokens: number): void {
    for (const message of this.taken(ACTOR_LOOKUP)) {
      if (message.kind === "hashRequest")
        this.answer({ ...message, kind: "hashed", blocks: tokens / BLOCK + 2 });
      if (message.kind !== "lookup") continue;
      const at = this.tables.request(message.slot);
      this.tables.requests[at + REQUEST_HIT_TOKENS] = tokens;
      const word = lookupWord(message.attempt, 1, LOOKUP_HIT);
      Atomics.store(this.tables.requests, at + REQUEST_LOOKUP_WORD, word);
      this.answer({ ...message, kind: "lookupDone" });
    }
  }
  /** Loader and saver report what they have got. Returns how many jobs. */
  work(): number {
    const jobs = [...this.taken(ACTOR_LOADER), ...this.taken(ACTOR_SAVER)];
    const blocks = { memoryBlocks: 0, diskBlocks: 0, badChunk: -1, ...COUNTS };
    const saved = { writtenBlocks: 0, presentBlocks: 0, failedBlocks: 0, ...COUNTS };
    for (const job of jobs) {
      if (job.kind === "load")
        this.answer({ ...job, kind: "loadDone", outcome: OUTCOME_HIT, ...blocks });
      if (job.kind === "save")
        this.answer({ ...job, kind: "saveDone", outcome: OUTCOME_HIT, ...saved });
    }
    return jobs.filter(({ kind }) => kind === "load" || kind === "save").length;
  }
  answer(message: Message): void {
    this.mailboxes[ACTOR_SCHEDULER]!.push(message);
  }
}

/** A thread with its own serving loop: block pool, slots, connector. */
class Thread {
  readonly pinned: Record<number, number> = {};
  readonly slots: RequestSlots;
  readonly connector: Connector;

  constructor(house: House, threadId: number) {
    const count = (ids: Int32Array, length: number, step: number): void => {
      for (const id of ids.subarray(0, length)) {
        this.pinned[id] = (this.pinned[id] ?? 0) + step;
        if (this.pinned[id] === 0) delete this.pinned[id];
      }
    };
    this.slots = new RequestSlots(house.tables);
    this.connector = new Connector({
      tables: house.tables,
      slots: this.slots,
      settings: BENCH_SETTINGS,
      log: { debug: () => undefined, warn: () => undefined },
      trace: NO_TRACE,
      pool: {
        pin: (ids, length) => count(ids, length, 1),
        unpin: (ids, length) => count(ids, length, -1),
      },
      ranks: 1,
      mailbox: house.mailboxes[ACTOR_SCHEDULER]!,
      owner: house.owner,
      threadId,
      nowMs: () => 0,
      send: (actor, message) => void house.mailboxes[actor]!.push(message),
      flushWakes: () => undefined,
      events: null,
      hashBlocks: (_tokens, _hashes, _extras, from, to) => to - from,
    });
  }

  add(id: string, blocks = 4): void {
    this.connector.scheduler.addRequest(id, new Int32Array(blocks * BLOCK + 1).fill(7), {
      maxTokens: 1,
    });
  }
  step(id?: string, computed = 0, tokens = 0, blockIds: number[] | null = null): void {
    const { scheduler, worker } = this.connector;
    const newBlockIds = blockIds === null ? null : [blockIds];
    const request = { id: id ?? "", newBlockIds };
    const step = { ...request, numComputedTokens: computed, numScheduledTokens: tokens };
    const metadata = scheduler.buildConnectorMeta({ scheduled: id === undefined ? [] : [step] });
    worker.startLoadKv(metadata);
    worker.waitForSave(metadata);
    scheduler.updateConnectorOutput(worker.getFinished());
  }
}

let house: House;
beforeEach(() => {
  house = new House();
});

/** Thread 1 dies with a load, a save, a lookup and a prompt that is being hashed in flight. */
function dieBusy(): void {
  const first = new Thread(house, 1);
  for (const id of ["loads", "saves"]) first.add(id);
  house.lookUp(3 * BLOCK);
  expect(first.connector.scheduler.getNumNewMatchedTokens("loads", 0)[0]).toBe(null);
  house.lookUp(3 * BLOCK);
  expect(first.connector.scheduler.getNumNewMatchedTokens("loads", 0)[0]).toBe(3 * BLOCK);
  first.connector.scheduler.updateStateAfterAlloc("loads", [[11, 12, 13]], 3 * BLOCK);
  first.step();
  first.step("saves", 0, 2 * BLOCK, [21, 22]);
  first.add("looks up");
  house.lookUp(3 * BLOCK);
  first.connector.scheduler.getNumNewMatchedTokens("looks up", 0);
  first.add("hashes");
  expect(first.pinned).toEqual({ 11: 1, 12: 1, 13: 1, 21: 1, 22: 1 });
  expect(first.connector.gauges()).toMatchObject({ requests: 4, jobs: 2 });
}

describe("attaching", () => {
  test("a thread that holds the connector keeps it; one that has ended loses it", () => {
    dieBusy();
    const wrong = expect.objectContaining({ code: "WRONG_THREAD" });
    expect(() => new Thread(house, 2)).toThrow(wrong);
    expect(releaseEndedOwner(house.owner, 2)).toBe(false);
    expect(() => new Thread(house, 2)).toThrow(wrong);
    expect(releaseEndedOwner(house.owner, 1)).toBe(true);
    expect(new Thread(house, 2).connector.gauges().requests).toBe(0);
  });

  test("what a dead thread left keeps slots, pages and blocks until it is over", () => {
    dieBusy();
    releaseEndedOwner(house.owner, 1);
    const second = new Thread(house, 2);
    const pins = { 11: 1, 12: 1, 13: 1, 21: 1, 22: 1 };
    expect(second.pinned).toEqual(pins);
    expect(second.connector.gauges()).toMatchObject({ requests: 0, draining: 4, jobs: 2 });
    expect(second.connector.idle()).toBe(false);
    // Everything that is free is used, so that a page given away twice would show.
    for (let slot = 4; slot < SLOTS; slot++) {
      second.add(`new ${slot}`, 14);
      const { scheduler } = second.connector;
      scheduler.updateStateAfterAlloc(
        `new ${slot}`,
        [Array.from({ length: 14 }, (_, index) => 40 + index)],
        0,
      );
    }
    expect(() => second.add("too many")).toThrow(expect.objectContaining({ code: "CAPACITY" }));
    expect(second.pinned).toEqual(pins);
    house.lookUp(3 * BLOCK);
    expect(house.work()).toBeGreaterThanOrEqual(2);
    second.step();
    expect(second.pinned).toEqual({});
    expect(second.connector.gauges()).toMatchObject({ requests: 2, draining: 0, jobs: 0 });
    for (let slot = 4; slot < SLOTS; slot++)
      second.connector.scheduler.requestFinished(`new ${slot}`);
    expect(second.connector.idle()).toBe(true);
    expect(second.slots.usage()).toEqual({ slots: 0, tokenPages: 0, hashPages: 0 });
    expect(second.connector.gauges().counters.postponedSaves).toBe(0);
    // A whole request in the new life.
    second.add("again");
    house.lookUp(3 * BLOCK);
    expect(second.connector.scheduler.getNumNewMatchedTokens("again", 0)[0]).toBe(null);
    house.lookUp(3 * BLOCK);
    expect(second.connector.scheduler.getNumNewMatchedTokens("again", 0)[0]).toBe(3 * BLOCK);
  });

  test("a job whose report died with the thread is announced again", () => {
    dieBusy();
    house.work();
    // The dead thread had taken the reports.
    house.taken(ACTOR_SCHEDULER);
    releaseEndedOwner(house.owner, 1);
    const second = new Thread(house, 2);
    house.lookUp(3 * BLOCK);
    house.work();
    second.step();
    expect(second.connector.idle()).toBe(true);
    expect(second.pinned).toEqual({});
  });

  test("only an idle connector can be detached, and then a new one starts with nothing", () => {
    const first = new Thread(house, 1);
    first.add("request");
    const busy = expect.objectContaining({ code: "NOT_IDLE" });
    expect(() => first.connector.detach()).toThrow(busy);
    first.connector.scheduler.requestFinished("request");
    expect(() => first.connector.detach()).toThrow(busy);
    house.lookUp(0);
    first.connector.detach();
    first.connector.detach();
    const closed = expect.objectContaining({ code: "CLOSED" });
    expect(() => first.connector.gauges()).toThrow(closed);
    const second = new Thread(house, 2);
    expect(second.connector.idle()).toBe(true);
    expect(() => first.connector.gauges()).toThrow(
      expect.objectContaining({ code: "WRONG_THREAD" }),
    );
    expect(() => first.connector.detach()).not.toThrow();
    second.add("request");
    // The runtime stops, whatever is in flight.
    second.connector.close();
    expect(() => second.connector.gauges()).toThrow(closed);
  });
});
