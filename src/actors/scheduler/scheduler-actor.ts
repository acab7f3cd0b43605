import { NONE } from "../../blocks/layout.ts";
import type { Tables } from "../../blocks/tables.ts";
import { brokenInvariant } from "../../errors.ts";
import {
  ACTOR_FRONT_END,
  type AbortRequest,
  type AddRequest,
  type DropLocalCache,
  type Hashed,
  type LookupDone,
  type Message,
  type MessageKind,
} from "../messages.ts";
import type { Actor, ActorContext, ActorInspection, Inbox } from "../step.ts";
import { takeStepDone } from "./apply-step.ts";
import { SchedulerCore, type SchedulerOptions } from "./core.ts";
import { updateGauges } from "./gauges.ts";
import { inspectScheduler } from "./inspect.ts";
import { takeConnectorOutput } from "./load-results.ts";
import { beginRecovery, finishRecovery, takeGone, takeRestart } from "./recovery.ts";
import {
  STATE_DRAINING,
  STATE_FREE,
  STATE_PARKED_HASHES,
  STATE_PARKED_LOAD,
  STATE_PARKED_LOOKUP,
} from "./request-states.ts";
import {
  abort,
  addRequest,
  leaveLoad,
  makeReady,
  preempt,
  release,
  submitLookup,
  unpark,
} from "./requests.ts";
import { schedule } from "./schedule-step.ts";
import { CounterPublisher, type SchedulerCounters } from "./scheduler-counters.ts";

/** What a recovering scheduler takes; the rest it finds in the tables afterwards. */
const RECOVERING_KINDS: ReadonlySet<MessageKind> = new Set([
  "stepDone",
  "actorRestarted",
  "actorGone",
  "dropLocalCache",
  "stop",
]);

/**
 * The built-in scheduler: continuous batching with chunked prefill over a paged block table, with a local prefix cache, and
 * with the connector's hooks called as vLLM's scheduler calls them. It never waits: requests that wait for hashes, lookups
 * or loads are parked and cost nothing until the message that ends their wait, or its deadline, comes.
 */
export class SchedulerActor implements Actor {
  readonly #core: SchedulerCore;
  readonly #publisher: CounterPublisher | null;
  #started = false;

  /** `context` is the one that every `step` gets; the connector in `options` was made with the same `options.memory`. */
  constructor(options: SchedulerOptions, context: ActorContext) {
    this.#core = new SchedulerCore(options, context);
    this.#publisher =
      options.counterBlock === undefined ? null : new CounterPublisher(options.counterBlock);
  }

  /** What was counted, and how things stood after the last step. Read on the scheduler's thread. */
  get counters(): Readonly<SchedulerCounters> {
    return this.#core.counters;
  }

  step(inbox: Inbox, tables: Tables, context: ActorContext): number {
    const core = this.#core;
    if (tables !== core.tables) brokenInvariant("the scheduler's tables are not the host's");
    core.context = context;
    if (!this.#started && context.epoch > 1) beginRecovery(core);
    this.#started = true;
    for (let message = inbox.next(); message !== null; message = inbox.next()) this.#take(message);
    if (!core.recovering) {
      takeConnectorOutput(core);
      expire(core);
      settleSaves(core);
      schedule(core);
    }
    updateGauges(core);
    this.#publisher?.publish(core.counters, core.allocator.usableBlocks());
    return nextDeadlineMs(core);
  }

  idle(): boolean {
    const { stopping, states, step } = this.#core;
    return stopping && states.live() === 0 && !step.busy();
  }

  inspect(nowMs: number): ActorInspection {
    return inspectScheduler(this.#core, nowMs);
  }

  #take(message: Message): void {
    const core = this.#core;
    if (core.recovering && !RECOVERING_KINDS.has(message.kind)) return;
    switch (message.kind) {
      case "addRequest":
        return takeAdd(core, message);
      case "abortRequest":
        return takeAbort(core, message);
      case "dropLocalCache":
        return takeDrop(core, message);
      case "hashed":
        return takeHashed(core, message);
      case "lookupDone":
        return takeLookupDone(core, message);
      case "loadDone":
      case "saveDone":
        if (core.connector?.receive(message) !== true) core.stale(message, core.connector !== null);
        return;
      case "stepDone":
        takeStepDone(core, message);
        if (core.recovering && core.step.fence === 0) finishRecovery(core);
        return;
      case "actorRestarted":
        return takeRestart(core, message);
      case "actorGone":
        return takeGone(core, message);
      case "stop":
        return takeStop(core);
      // What only the scheduler sends, or sends to others.
      case "cancelLoad":
      case "discardLookup":
      case "hashRequest":
      case "load":
      case "localCacheDropped":
      case "lookup":
      case "requestFinished":
      case "runStep":
      case "save":
      case "slotReleased":
      case "tokenGenerated":
        core.stale(message);
    }
  }
}

/** True for a request that is known under this generation. */
function isCurrent(core: SchedulerCore, slot: number, generation: number): boolean {
  const { state, generation: generations } = core.states;
  return (
    state[slot] !== undefined && state[slot] !== STATE_FREE && generations[slot] === generation
  );
}

function takeAdd(core: SchedulerCore, message: AddRequest): void {
  const { slot, generation } = message;
  const { states } = core;
  // After a restart the request was found in the table before its message came, and may even be over by now.
  const seen = states.state[slot] === STATE_FREE && states.generation[slot] === generation;
  if (seen || isCurrent(core, slot, generation)) return core.stale(message);
  if (states.state[slot] !== STATE_FREE)
    brokenInvariant("slot is used again before its release", slot);
  addRequest(core, slot, null);
}

function takeAbort(core: SchedulerCore, message: AbortRequest): void {
  const { slot, generation } = message;
  if (!isCurrent(core, slot, generation)) return core.stale(message);
  abort(core, slot);
}

function takeDrop(core: SchedulerCore, { ticket }: DropLocalCache): void {
  const blocks = core.allocator.dropCache();
  core.context.send(ACTOR_FRONT_END, { kind: "localCacheDropped", ticket, blocks });
}

function takeHashed(core: SchedulerCore, message: Hashed): void {
  const { states, connector } = core;
  const { slot, generation, blocks } = message;
  if (connector !== null) connector.receive(message);
  if (!isCurrent(core, slot, generation)) return core.stale(message, connector !== null);
  states.hashPending[slot] = 0;
  states.hashedBlocks[slot] = Math.max(states.hashedBlocks[slot]!, blocks);
  if (states.state[slot] === STATE_DRAINING) return release(core, slot);
  if (states.state[slot] !== STATE_PARKED_HASHES) return;
  unpark(core, slot);
  submitLookup(core, slot);
}

function takeLookupDone(core: SchedulerCore, message: LookupDone): void {
  const { states, connector } = core;
  const { slot, generation } = message;
  const expected = connector?.receive(message) === true;
  if (!isCurrent(core, slot, generation)) return core.stale(message, connector !== null);
  if (states.state[slot] === STATE_DRAINING) return release(core, slot);
  if (!expected || states.state[slot] !== STATE_PARKED_LOOKUP) return;
  unpark(core, slot);
  makeReady(core, slot);
}

function takeStop(core: SchedulerCore): void {
  core.stopping = true;
  const { states } = core;
  for (let slot = 0; slot < states.slots; slot++)
    if (states.state[slot] !== STATE_FREE) abort(core, slot);
}

/** Waits that took too long: hashes (all wait equally long, so the first is the oldest), lookups and loads. */
function expire(core: SchedulerCore): void {
  const { states, connector, context } = core;
  const now = context.nowMs();
  for (let slot = states.parkedHashes.head; slot !== NONE; slot = states.parkedHashes.head) {
    if (states.parkedUntilMs[slot]! > now) break;
    core.counters.hashTimeouts++;
    unpark(core, slot);
    makeReady(core, slot);
  }
  if (connector === null || connector.hooks.nextDeadlineMs() > now) return;
  connector.hooks.expire((slot) => {
    if (states.state[slot] === STATE_PARKED_LOOKUP) {
      unpark(core, slot);
      makeReady(core, slot);
    } else if (states.state[slot] === STATE_PARKED_LOAD) abandonLoad(core, slot);
  });
}

/** What ended requests owe is saved as soon as there is room. */
function settleSaves(core: SchedulerCore): void {
  core.connector?.settleSaves((slot) => {
    core.admissionDue = true;
    release(core, slot);
  });
}

/** The engine does not even acknowledge the cancel: its blocks are left to it, in quarantine, and the request computes. */
function abandonLoad(core: SchedulerCore, slot: number): void {
  unpark(core, slot);
  leaveLoad(core, slot);
  core.counters.loadsFailed++;
  preempt(core, slot);
}

function nextDeadlineMs(core: SchedulerCore): number {
  const { states, connector } = core;
  const head = states.parkedHashes.head;
  const hashes = head === NONE ? Infinity : states.parkedUntilMs[head]!;
  const hooks = connector === null ? Infinity : connector.hooks.nextDeadlineMs();
  return Math.min(hashes, hooks, core.roomAtMs);
}
