import type { Mailbox } from "../../actors/mailbox/mailbox.ts";
import type { Message } from "../../actors/messages.ts";
import { REQUEST_LOOKUP_WORD } from "../../blocks/layout.ts";
import { PageAllocator } from "../../blocks/page-arena.ts";
import type { RequestSlots } from "../../blocks/request-slots.ts";
import type { Tables } from "../../blocks/tables.ts";
import { fail, MooncakeKvError } from "../../errors.ts";
import type { KvEventSource } from "../../events/event-source.ts";
import type { KvEvent } from "../../events/kv-events.ts";
import type { HitRules } from "../../keys/coordinator/hit-rules.ts";
import type { BlockPool, ConnectorMetadata, ConnectorOutput } from "../hooks.ts";
import { rulesOf } from "../ports.ts";
import type { ConnectorLog, SchedulerPorts, SidePorts } from "../ports.ts";
import { refuseReset, type ResetAnswer, type ResetOptions } from "../reset-answer.ts";
import type { ConnectorSettings } from "../settings.ts";
import { transfersInFlight } from "../transfers-in-flight.ts";
import { ConnectorSides } from "../sides.ts";
import { jobChains } from "../jobs.ts";
import { Inbox } from "./inbox.ts";
import { Ownership } from "./ownership.ts";
import { EmbeddedRequests } from "./requests.ts";

/** What a runtime gives to the thread that attaches the connector. */
export interface ConnectorEnds extends SidePorts {
  readonly pool: BlockPool;
  /** What hits need; absent: groups of attention that need all blocks, of equal spans. */
  readonly rules?: HitRules;
  readonly ranks: number;
  readonly slots: RequestSlots;
  /** The scheduler's mailbox; nobody else reads it. */
  readonly mailbox: Mailbox;
  /** One word in shared memory, 0 at first: which thread has attached. */
  readonly owner: Int32Array;
  /** worker_threads' threadId of the calling thread. */
  readonly threadId: number;
  readonly hashBlocks: NonNullable<SchedulerPorts["hashBlocks"]>;
  readonly readMembership?: SchedulerPorts["readMembership"];
  /** Ends what is being saved and removes this deployment's keys. Absent: there is nobody who could. */
  readonly resetPool?: (options: ResetOptions) => Promise<ResetAnswer>;
  /** KV events of this runtime's saves; null: none are made. */
  readonly events: KvEventSource | null;
  /** Wakes every actor that has got a message since the last call. */
  flushWakes(): void;
}

/** Both sides on the attached thread, with the mailbox that feeds them. Every call enters here first. */
export class Attached {
  readonly tables: Tables;
  readonly settings: ConnectorSettings;
  readonly log: ConnectorLog;
  readonly sides: ConnectorSides;
  readonly requests: EmbeddedRequests;
  readonly rules: HitRules;
  readonly nowMs: () => number;
  readonly #ends: ConnectorEnds;
  readonly #ownership: Ownership;
  readonly #inbox: Inbox;
  #abandoned: string[] = [];
  #metadata: ConnectorMetadata | null = null;
  #output: ConnectorOutput | null = null;

  /**
   * Throws WRONG_THREAD when another thread has attached. What an attachment before this one left behind (its thread died)
   * is taken over: jobs keep their blocks until they are reported, requests keep their slots until nothing of them is in flight.
   */
  constructor(ends: ConnectorEnds) {
    this.#ownership = new Ownership(ends.owner, ends.threadId);
    this.#ownership.take();
    this.#ends = ends;
    this.tables = ends.tables;
    this.settings = ends.settings;
    this.log = ends.log;
    this.nowMs = () => ends.nowMs();
    this.#inbox = new Inbox(ends.mailbox);
    const blockPages = new PageAllocator(ends.tables.blocks);
    blockPages.adopt(jobChains(ends.tables));
    const rules = rulesOf(ends);
    this.rules = rules;
    this.requests = new EmbeddedRequests(ends.tables, blockPages, ends.slots, rules.uniform);
    this.sides = new ConnectorSides({
      requestName: (slot) => this.requests.id(slot),
      tables: ends.tables,
      settings: ends.settings,
      log: ends.log,
      trace: ends.trace,
      nowMs: this.nowMs,
      send: (actor, message) => ends.send(actor, message),
      gone: (actor) => ends.gone?.(actor) === true,
      blockPages,
      pool: ends.pool,
      rules,
      ranks: ends.ranks,
      flushWakes: () => ends.flushWakes(),
      hashBlocks: ends.hashBlocks,
      readLookup: (slot) => this.#lookupWord(slot),
      ...(ends.readMembership === undefined ? {} : { readMembership: ends.readMembership }),
      waitLookup: (slot, seen, timeoutMs) => this.#waitLookup(slot, seen, timeoutMs),
    });
    this.#adopt();
  }

  #adopt(): void {
    this.sides.adopt();
    for (const slot of this.requests.adopt()) {
      // The lookup actor may be at work on its hash row: asked again, it says when it is not.
      this.sides.hooks.requestAdded(slot);
      this.sides.hooks.requestFinished(slot);
    }
    this.releaseDrained();
    this.flush();
  }

  /** Asserts the thread and takes what has come. Throws WRONG_THREAD or CLOSED. */
  enter(): this {
    this.#ownership.check();
    let taken = 0;
    for (let message = this.#inbox.next(); message !== null; message = this.#inbox.next()) {
      this.#take(message);
      taken++;
    }
    if (taken > 0) this.releaseDrained();
    return this;
  }

  /** The step's metadata go out: the same object, which `checkMetadata` knows again. */
  told(metadata: ConnectorMetadata): ConnectorMetadata {
    this.#metadata = metadata;
    return metadata;
  }
  /** Throws INVALID_TYPE for anything but what `buildConnectorMeta` gave: other numbers would be jobs of other requests. */
  checkMetadata(metadata: ConnectorMetadata): ConnectorMetadata {
    if (metadata !== null && metadata === this.#metadata) return metadata;
    const remedy =
      "Give what this connector's buildConnectorMeta returned, itself and no copy of it.";
    return fail("INVALID_TYPE", "metadata", metadata, "is not the step's metadata", remedy);
  }
  reported(output: ConnectorOutput): ConnectorOutput {
    this.#output = output;
    return output;
  }
  /** Throws INVALID_TYPE for anything but the output of `getFinished`. */
  checkOutput(output: ConnectorOutput): ConnectorOutput {
    if (output !== null && output === this.#output) return output;
    const remedy =
      "Give what this connector's getFinished returned, itself and no copy of its output.";
    return fail("INVALID_TYPE", "finished.output", output, "is no output of the workers", remedy);
  }

  flush(): void {
    this.#ends.flushWakes();
  }
  /** Sleeps until a message comes, at most `timeoutMs`. */
  wait(timeoutMs: number): void {
    this.#inbox.wait(timeoutMs);
  }

  /** What ended requests owe is saved as soon as there is room. */
  settleSaves(): void {
    this.sides.settleSaves(() => undefined);
    this.flush();
    this.releaseDrained();
  }

  expire(): void {
    this.settleSaves();
    const { hooks } = this.sides;
    if (hooks.nextDeadlineMs() > this.nowMs()) return;
    hooks.expire((slot, loadLost) => {
      // A lookup that timed out answers by itself when it is asked again; a lost load nobody asks for.
      const id = this.requests.id(slot);
      if (id !== undefined && loadLost) this.#abandoned.push(id);
    });
  }

  takeEvents(): readonly KvEvent[] {
    return this.#ends.events?.take() ?? [];
  }
  /** KV events that found no room, because nobody took those before them. */
  lostEvents(): number {
    return this.#ends.events?.lostEvents() ?? 0;
  }

  takeAbandoned(): readonly string[] {
    const abandoned = this.#abandoned;
    this.#abandoned = [];
    return abandoned;
  }

  releaseDrained(): void {
    if (this.requests.draining > 0)
      this.requests.releaseDrained((slot) => this.sides.hooks.inFlight(slot));
  }

  /** See SchedulerFace.resetStore. */
  async resetPool(options: ResetOptions): Promise<ResetAnswer> {
    const { gate } = this.enter().sides.hooks;
    const busy = this.#busy();
    if (busy !== null) return refuseReset("BUSY", busy);
    if (this.#ends.resetPool === undefined)
      return refuseReset("ENGINE", "there is no engine to ask");
    gate.pause();
    try {
      return await this.#ends.resetPool(options);
    } finally {
      gate.resume();
    }
  }

  /** What would bring old blocks back after a reset, or read them amid it. */
  #busy(): string | null {
    const { hooks } = this.sides;
    if (hooks.gate.paused) return "another reset is under way";
    const holders = this.requests.holdingBlocks();
    if (holders > 0) return `${holders} requests hold blocks: finish or preempt them first`;
    if (hooks.waitingLookups() > 0) return `${hooks.waitingLookups()} lookups are in flight`;
    const { loads, unstartedSaves } = transfersInFlight(this.tables);
    if (loads > 0) return `${loads} loads are in flight`;
    return unstartedSaves > 0 ? `${unstartedSaves} saves wait for the end of their step` : null;
  }

  /** Nothing lives and nothing is in flight. */
  idle(): boolean {
    this.enter();
    const { live, draining } = this.requests;
    return live === 0 && draining === 0 && this.sides.hooks.liveJobs() === 0;
  }

  /** Lets go of the runtime: another thread may attach. Throws NOT_IDLE; does nothing when it has let go before. */
  detach(): void {
    if (!this.#ownership.held()) return;
    if (!this.idle()) throw this.#notIdle();
    this.close();
  }

  /** The runtime stops, whatever is in flight: every later call throws CLOSED. */
  close(): void {
    this.#ownership.release();
  }

  #notIdle(): MooncakeKvError {
    const { live, draining } = this.requests;
    const jobs = this.sides.hooks.liveJobs();
    return new MooncakeKvError({
      code: "NOT_IDLE",
      field: "connector",
      value: { requests: live, draining, jobs },
      problem: "has requests or transfers in flight",
      remedy: "Finish all requests, and call getFinished and updateConnectorOutput until idle().",
    });
  }

  #take(message: Message): void {
    switch (message.kind) {
      case "hashed":
      case "lookupDone":
      case "loadDone":
      case "saveDone":
      case "actorRestarted":
      case "actorGone":
        this.sides.receive(message);
        return;
      default:
        this.sides.hooks.counters.staleMessages++;
        this.log.warn({ message }, "a message that is not for the connector is dropped");
    }
  }

  #lookupWord(slot: number): number {
    // Pairs with the lookup actor's publishing store.
    return Atomics.load(this.tables.requests, this.tables.request(slot) + REQUEST_LOOKUP_WORD);
  }

  /** The lookup actor sends `lookupDone` after the word, and that wakes this thread. */
  #waitLookup(slot: number, seen: number, timeoutMs: number): number {
    const untilMs = this.nowMs() + timeoutMs;
    for (;;) {
      const leftMs = untilMs - this.nowMs();
      if (this.#lookupWord(slot) !== seen) return Math.max(leftMs, Number.MIN_VALUE);
      if (leftMs <= 0) return 0;
      this.#inbox.wait(leftMs);
    }
  }
}
