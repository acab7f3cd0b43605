import type { DeathMoment, SimulatedObserver } from "../../../src/actors/hosts/simulated/host.ts";
import { MESSAGE_KINDS } from "../../../src/actors/mailbox/codec.ts";
import {
  ACTOR_FRONT_END,
  ACTOR_NAMES,
  OUTCOME_CANCELLED,
  OUTCOME_IDENTITY_MISMATCH,
  OUTCOME_MISS,
  OUTCOME_NO_SPACE,
  type Message,
} from "../../../src/actors/messages.ts";
import { FRONT_END_RESERVE } from "../../../src/actors/scheduler/core.ts";
import {
  JOB_KIND,
  JOB_KIND_LOAD,
  JOB_KIND_SAVE,
  JOB_LIVE_WORD,
  NONE,
  REQUEST_LOADS_IN_FLIGHT,
  REQUEST_SAVES_IN_FLIGHT,
} from "../../../src/blocks/layout.ts";
import type { Tables } from "../../../src/blocks/tables.ts";
import { MEMBERSHIP_OPEN } from "../../../src/connector/membership.ts";
import { TRACE_EVENTS, type TraceEventName } from "../../../src/trace/events.ts";
import { membershipOf } from "./membership.ts";
import type { RunPlan } from "./workload.ts";

/** Breaks a promise. */
export const LOOKUP_OF_A_CLOSED_POOL = "lookup of a pool that is not open";

/** Deadlines of the trace event `deadlinePassed`. */
const DEADLINES = ["", "lookup", "load", "save"] as const;

/**
 * Counts what happened in a run, by name, and digests every message and event in order: two runs with one digest were equal.
 */
export class Situations implements SimulatedObserver {
  readonly counts = new Map<string, number>();
  readonly #plan: RunPlan;
  readonly #tables: Tables;
  readonly #nowMs: () => number;
  readonly #frontEndRoom: () => number;
  readonly #membership: (nowMs: number) => number;
  readonly #log: ((line: string) => void) | undefined;
  readonly #overdueLoads = new Set<number>();
  readonly #dead = new Set<number>();
  #digest = 0x811c9dc5;

  constructor(
    plan: RunPlan,
    tables: Tables,
    host: { readonly nowMs: () => number; readonly frontEndRoom: () => number },
    log?: (line: string) => void,
  ) {
    this.#plan = plan;
    this.#membership = membershipOf(plan.seed);
    this.#tables = tables;
    this.#nowMs = host.nowMs;
    this.#frontEndRoom = host.frontEndRoom;
    this.#log = log;
  }

  get digest(): number {
    return this.#digest;
  }
  count(situation: string): void {
    this.counts.set(situation, (this.counts.get(situation) ?? 0) + 1);
  }

  stepped(actor: number): void {
    this.#mix(actor + 1);
  }

  died(actor: number, epoch: number, moment: DeathMoment): void {
    this.#log?.(`${ACTOR_NAMES[actor]} ${epoch} dies ${moment}`);
    this.#mix(1000 + actor);
    this.count(`${ACTOR_NAMES[actor]} dies`);
    if (moment !== "between steps") this.count(`${ACTOR_NAMES[actor]} dies ${moment}`);
    if (epoch > 1 && moment === "in a step") this.count(`successor of ${ACTOR_NAMES[actor]} dies`);
    this.#dead.add(actor);
    if (this.#dead.size > 1) this.count("several actors are dead at once");
    if (actor === 0 && this.#jobsLive(JOB_KIND_LOAD)) this.count("scheduler dies during a load");
    if (actor === 2 && this.#jobsLive(JOB_KIND_LOAD)) this.count("loader dies during a load");
    if (actor === 3 && this.#jobsLive(JOB_KIND_SAVE)) this.count("saver dies during a save");
  }

  sent(actor: number, message: Message, repeated: boolean): void {
    this.#log?.(`${repeated ? "again " : ""}-> ${ACTOR_NAMES[actor]} ${JSON.stringify(message)}`);
    this.#mix(MESSAGE_KINDS.indexOf(message.kind));
    for (const value of Object.values(message)) if (typeof value === "number") this.#mix(value);
    if (repeated) this.count("a message arrives twice");
    if (actor === ACTOR_FRONT_END) this.#frontEndLag();
    switch (message.kind) {
      case "actorRestarted":
        this.#dead.delete(message.actor);
        return;
      case "lookup":
        if (!repeated && this.#membership(this.#nowMs()) !== MEMBERSHIP_OPEN)
          this.count(LOOKUP_OF_A_CLOSED_POOL);
        return;
      case "discardLookup":
        return this.count("lookup given up");
      case "cancelLoad":
        return this.count("load cancelled");
      case "loadDone":
        if (message.outcome === OUTCOME_CANCELLED) this.count("load ends as cancelled");
        if (message.outcome === OUTCOME_MISS) this.count("load misses a key");
        if (message.badChunk > 0) this.count("load brings a part");
        return;
      case "saveDone":
        if (message.outcome === OUTCOME_NO_SPACE) this.count("save finds no room");
        if (message.presentBlocks > 0) this.count("save finds blocks in the pool");
        return;
      case "stepDone":
        if (message.status < 0) this.count("step fails");
        return;
      case "requestFinished":
        if (message.poolTokens > 0) this.count("request with pool tokens");
        if (message.localTokens > 0) this.count("request with local tokens");
        if (message.poolTokens > 0 && message.localTokens > 0)
          this.count("request with local and pool tokens");
        return;
      case "localCacheDropped":
        if (message.blocks > 0) this.count("local cache dropped");
        return;
      default:
    }
  }

  record(event: TraceEventName, slot: number, first: number, second: number): void {
    this.#log?.(`   ${event} slot ${slot} ${first} ${second}`);
    this.#mix(TRACE_EVENTS[event].number);
    this.#mix(first);
    this.#mix(second);
    switch (event) {
      case "requestPreempted":
        this.count("preemption");
        if (this.#word(slot, REQUEST_SAVES_IN_FLIGHT) > 0) this.count("preemption during a save");
        return;
      case "requestFinished":
        if (this.#word(slot, REQUEST_LOADS_IN_FLIGHT) > 0) this.count("request ends during a load");
        if (this.#word(slot, REQUEST_SAVES_IN_FLIGHT) > 0) this.count("request ends during a save");
        return;
      case "blocksQuarantined":
        return this.count(this.#isLoad(first) ? "load quarantined" : "save quarantined");
      case "deadlinePassed":
        this.count(`${DEADLINES[first]} deadline passes`);
        if (first === 2) this.#loadOverdue(second);
        return;
      case "blocksPinned":
        this.#overdueLoads.delete(first);
        return;
      case "lookupAnswered":
        if (first === OUTCOME_IDENTITY_MISMATCH) this.count("lookup meets a closed pool");
        return;
      case "loadFailed":
        this.count("load fails");
        if (second > 0) this.count("load fails behind good blocks");
        return;
      case "engineDown":
      case "engineUp":
      case "staleMessage":
        return this.count(event);
      default:
    }
  }

  /** So little room in the front end's mailbox that the scheduler may not sample a whole step. */
  #frontEndLag(): void {
    const { requestSlots, sequencesMax } = this.#plan;
    const needed = 2 * requestSlots + sequencesMax + FRONT_END_RESERVE;
    if (this.#frontEndRoom() < needed) this.count("front end lags");
  }
  #loadOverdue(job: number): void {
    if (this.#overdueLoads.has(job)) this.count("overdue load is left to the engine");
    this.#overdueLoads.add(job);
  }
  #isLoad(job: number): boolean {
    return this.#tables.jobs[this.#tables.job(job) + JOB_KIND] === JOB_KIND_LOAD;
  }
  #jobsLive(kind: number): boolean {
    const { jobs } = this.#tables;
    for (let job = 0; job < this.#plan.jobSlots; job++) {
      const at = this.#tables.job(job);
      if (jobs[at + JOB_LIVE_WORD] === 1 && jobs[at + JOB_KIND] === kind) return true;
    }
    return false;
  }
  #word(slot: number, word: number): number {
    return slot === NONE ? 0 : (this.#tables.requests[this.#tables.request(slot) + word] ?? 0);
  }
  #mix(value: number): void {
    const time = Math.floor(this.#nowMs() * 1000) | 0;
    this.#digest = Math.imul(this.#digest ^ value ^ Math.imul(time, 0x9e3779b1), 0x01000193);
  }
}
