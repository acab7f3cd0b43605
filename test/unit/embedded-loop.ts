/** A connector as a serving loop attaches it, on real tables and mailboxes; the test plays the actors between two calls. */
import { Mailbox, mailboxWords } from "../../src/actors/mailbox/mailbox.ts";
import {
  ACTOR_COUNT,
  ACTOR_LOADER,
  ACTOR_LOOKUP,
  ACTOR_SAVER,
  ACTOR_SCHEDULER,
  OUTCOME_HIT,
} from "../../src/actors/messages.ts";
import type { Message, MessageKind, MessageOf } from "../../src/actors/messages.ts";
import {
  LOOKUP_HIT,
  lookupWord,
  NONE,
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
} from "../../src/blocks/layout.ts";
import { RequestSlots } from "../../src/blocks/request-slots.ts";
import type { Tables } from "../../src/blocks/tables.ts";
import { Connector } from "../../src/connector/connector.ts";
import type { ConnectorEnds } from "../../src/connector/connector.ts";
import type { ConnectorSettings } from "../../src/connector/settings.ts";
import { NO_TRACE } from "../../src/trace/events.ts";
import { BENCH_SETTINGS } from "./connector-bench.ts";
import { smallTables } from "./small-tables.ts";

export class EmbeddedLoop {
  nowMs = 0;
  /** Called each time the connector looks at the clock: lets an actor answer while a call blocks. */
  meanwhile: () => void = () => undefined;
  /** Hash blocks that the connector hashed itself. */
  readonly hashed: [number, number][] = [];
  readonly pinned = new Map<number, number>();
  readonly tables: Tables;
  readonly slots: RequestSlots;
  readonly mailboxes: Mailbox[];
  readonly ends: ConnectorEnds;
  readonly connector: Connector;
  readonly #groups: number;

  constructor(settings: Partial<ConnectorSettings> = {}, groups = 1) {
    this.#groups = groups;
    this.tables = smallTables({
      requestSlots: 8,
      jobSlots: 16,
      tokensPerRequestMax: 1_024,
      tokensMax: 8_192,
      groups,
      blockCount: 128,
    });
    this.slots = new RequestSlots(this.tables);
    this.mailboxes = Array.from({ length: ACTOR_COUNT }, () => {
      const words = new Int32Array(new SharedArrayBuffer(mailboxWords(64) * 4));
      Mailbox.initialise(words);
      return new Mailbox(words);
    });
    const count = (ids: Int32Array, length: number, step: number): void => {
      for (const id of ids.subarray(0, length))
        this.pinned.set(id, (this.pinned.get(id) ?? 0) + step);
    };
    this.ends = {
      tables: this.tables,
      slots: this.slots,
      settings: { ...BENCH_SETTINGS, ...settings },
      log: { debug: () => undefined, warn: () => undefined },
      trace: NO_TRACE,
      pool: {
        pin: (ids, length) => count(ids, length, 1),
        unpin: (ids, length) => count(ids, length, -1),
      },
      ranks: 1,
      mailbox: this.mailboxes[ACTOR_SCHEDULER]!,
      owner: new Int32Array(new SharedArrayBuffer(4)),
      threadId: 0,
      nowMs: () => {
        this.meanwhile();
        return this.nowMs;
      },
      send: (actor, message) => {
        if (!this.mailboxes[actor]!.push(message)) throw new Error("mailbox full");
      },
      flushWakes: () => undefined,
      events: null,
      hashBlocks: (_tokens, _hashes, _extras, from, to) => {
        this.hashed.push([from, to]);
        return to - from;
      },
    };
    this.connector = new Connector(this.ends);
  }

  answer(message: Message): void {
    this.mailboxes[ACTOR_SCHEDULER]!.push(message);
  }
  take<Kind extends MessageKind>(actor: number, kind: Kind): MessageOf<Kind>[] {
    const taken: MessageOf<Kind>[] = [];
    for (
      let message = this.mailboxes[actor]!.pop();
      message !== null;
      message = this.mailboxes[actor]!.pop()
    )
      if (message.kind === kind) taken.push(message as MessageOf<Kind>);
    return taken;
  }
  hash(blocks: number): void {
    for (const { slot, generation } of this.take(ACTOR_LOOKUP, "hashRequest"))
      this.answer({ kind: "hashed", slot, generation, blocks });
  }
  find(tokens: number): void {
    for (const { slot, generation, attempt } of this.take(ACTOR_LOOKUP, "lookup")) {
      const at = this.tables.request(slot);
      this.tables.requests[at + REQUEST_HIT_TOKENS] = tokens;
      Atomics.store(
        this.tables.requests,
        at + REQUEST_LOOKUP_WORD,
        lookupWord(attempt, 1, LOOKUP_HIT),
      );
      this.answer({ kind: "lookupDone", slot, generation, attempt });
    }
  }
  load(outcome: number, badChunk = NONE): number {
    const loads = this.take(ACTOR_LOADER, "load");
    const counts = { memoryBlocks: 0, diskBlocks: 0, kibibytes: 0, microseconds: 0 };
    for (const { job, ticket, worker } of loads)
      this.answer({ kind: "loadDone", job, ticket, worker, outcome, badChunk, ...counts });
    return loads.length;
  }
  save(outcome = OUTCOME_HIT): number {
    const saves = this.take(ACTOR_SAVER, "save");
    const counts = {
      writtenBlocks: 0,
      presentBlocks: 0,
      failedBlocks: 0,
      kibibytes: 0,
      microseconds: 0,
    };
    for (const { job, ticket, worker } of saves)
      this.answer({ kind: "saveDone", job, ticket, worker, outcome, ...counts });
    return saves.length;
  }
  pins(): number[] {
    return [...this.pinned]
      .flatMap(([block, pins]) => (pins > 0 ? [block] : []))
      .sort((a, b) => a - b);
  }
  rows(ids: readonly number[]): number[][] {
    return Array.from({ length: this.#groups }, (_, group) => ids.map((id) => id + 64 * group));
  }
  step(
    scheduled: Parameters<Connector["scheduler"]["buildConnectorMeta"]>[0]["scheduled"] = [],
  ): void {
    const { scheduler, worker } = this.connector;
    const meta = scheduler.buildConnectorMeta({ scheduled });
    worker.startLoadKv(meta);
    worker.waitForSave(meta);
  }
}
