import {
  ACTOR_FRONT_END,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_ERROR,
  type Message,
} from "../actors/messages.ts";
import { NONE, REQUEST_FLAG_ABORTED, REQUEST_FLAGS } from "../blocks/layout.ts";
import type { RequestRefused } from "../blocks/request-slots.ts";
import { COUNTERS, GAUGES } from "../trace/counters.ts";
import {
  FRONT_END_LIMITS,
  type FrontEndLimits,
  type FrontEndPorts,
  type FrontEndRequest,
  type RequestHandle,
  type RequestListener,
  type SubmitRefusal,
} from "./front-end-types.ts";
import { LiveRequest } from "./live-request.ts";
import { LocalCacheDrops } from "./local-cache-drops.ts";
import { MailboxReader } from "./mailbox-reader.ts";
import { RequestIds } from "./request-ids.ts";
import { TokenDelivery } from "./token-delivery.ts";
import { WaitingLine } from "./waiting-line.ts";

/**
 * Owner of the request slots: takes requests, hands their tokens over, gives slots back. One thread, the one whose wake handle
 * is the front end's; call `start` once that handle is open and calls `wake`.
 */
export class FrontEnd {
  readonly ids = new RequestIds();
  readonly #ports: FrontEndPorts;
  readonly #reader: MailboxReader;
  readonly #delivery: TokenDelivery;
  readonly #line: WaitingLine;
  readonly #drops: LocalCacheDrops;
  readonly #live: (LiveRequest | undefined)[];
  #liveCount = 0;
  #closing = false;
  #held = false;

  constructor(ports: FrontEndPorts, limits: FrontEndLimits = FRONT_END_LIMITS) {
    this.#ports = ports;
    this.#live = Array.from({ length: ports.tables.dimensions.requestSlots });
    this.#delivery = new TokenDelivery(ports);
    this.#reader = new MailboxReader({
      mailbox: ports.mailbox,
      take: (message) => this.#take(message),
      taken: () => ports.outboxes.flush(),
    });
    this.#line = new WaitingLine(limits, {
      timedOut: (live) => this.#delivery.end(live, live.unserved("QUEUE_TIMEOUT", FINISH_ERROR)),
      // The scheduler counts those that have a slot; readers add both up.
      changed: (length) => ports.counters.set(GAUGES.requestsWaiting, length),
    });
    this.#drops = new LocalCacheDrops(ports.outboxes, limits.dropLocalCacheTimeoutMs);
  }

  /** Entry for the wake handle. */
  get wake(): () => void {
    return this.#reader.wake;
  }
  start(): void {
    this.#reader.wake();
  }

  /** Requests that hold a slot, and requests that wait for one. */
  get liveRequests(): number {
    return this.#liveCount;
  }
  /** Those of them that have not ended: the others wait for their saves. */
  get runningRequests(): number {
    return this.#live.filter((live) => live?.finished === false).length;
  }
  get queuedRequests(): number {
    return this.#line.length;
  }
  idle(): boolean {
    return this.#liveCount === 0 && this.#line.length === 0;
  }

  /**
   * Takes a request: at once, or into the bounded line for a slot. Never calls the listener before it
   * returns. Throws INVALID_TYPE or INVALID_VALUE for a prompt that is no list of token ids, or a cache salt that has no UTF-8 form.
   */
  submit(request: FrontEndRequest, listener: RequestListener): RequestHandle | SubmitRefusal {
    if (this.#closing) return refuse("CLOSED", "Send the request to another instance.");
    const { dimensions } = this.#ports.tables;
    const live = new LiveRequest(request, listener, this.#ports.nowMs(), dimensions);
    if (live.slotRequest.tokensMax > dimensions.tokensPerRequestMax) {
      const remedy = `Keep prompt and answer within ${dimensions.tokensPerRequestMax} tokens.`;
      return refuse("TOO_LONG", remedy);
    }
    if (this.#held || this.#line.length > 0) return this.#enqueue(live);
    const refused = this.#admit(live);
    if (refused === null) {
      this.#ports.outboxes.flush();
      return this.#handle(live);
    }
    // What does not fit now that nobody else is here never will.
    if (refused.reason === "TOO_LONG" || this.#liveCount === 0) {
      return refuse("TOO_LONG", refused.remedy);
    }
    return this.#enqueue(live);
  }

  /** New requests wait in line until `resume`. */
  hold(): void {
    this.#held = true;
  }
  resume(): void {
    this.#held = false;
    this.#admitWaiting();
    this.#ports.outboxes.flush();
  }

  /** Drops every local prefix-cache block that no request holds; resolves to their number. Throws TIMEOUT or CLOSED. */
  dropLocalCache(): Promise<number> {
    return this.#drops.ask();
  }

  /** Text id of a request of now or of the recent past; undefined when it was never here or is long gone. */
  readonly requestId = (slot: number, generation: number): string | undefined =>
    this.ids.of(slot, generation);

  /** An actor runs anew. Also comes as a message; calling it for both is harmless. */
  actorRestarted(actor: number): void {
    if (actor !== ACTOR_SCHEDULER) return;
    // What the dead scheduler announced is in the mailbox, with its log-probabilities: that comes first.
    this.#reader.wake();
    this.#schedulerRestarted();
    this.#ports.outboxes.flush();
  }

  /** Refuses new requests and fails those that wait for a slot; running ones go on. */
  beginShutdown(): void {
    this.#closing = true;
    for (const live of this.#line.clear())
      this.#delivery.end(live, live.unserved("CLOSED", FINISH_ERROR));
  }
  /** No request can end any more (scheduler or model given up): all end here, with FINISH_ERROR, and none is taken. */
  fail(): void {
    this.beginShutdown();
    for (const live of this.#live)
      if (live !== undefined) this.#delivery.end(live, live.unserved(null, FINISH_ERROR));
  }
  abortAll(): void {
    for (const live of this.#live) if (live !== undefined) this.#abort(live);
  }
  /** Reads no more messages. Requests that are still here end with FINISH_ABORTED. */
  close(): void {
    this.beginShutdown();
    this.#reader.close();
    this.#drops.close();
    for (const live of this.#live) {
      if (live !== undefined && !live.finished) this.#delivery.end(live, live.unserved(null));
    }
  }

  #enqueue(live: LiveRequest): RequestHandle | SubmitRefusal {
    if (!this.#line.push(live)) {
      return refuse("CAPACITY", "Try again later, or start the server with more request slots.");
    }
    return this.#handle(live);
  }

  #handle(live: LiveRequest): RequestHandle {
    return {
      ok: true,
      id: live.request.id,
      get slot() {
        return live.slot;
      },
      get generation() {
        return live.generation;
      },
      abort: () => this.#abort(live),
    };
  }

  /** Null when the request has a slot now, otherwise why not. */
  #admit(live: LiveRequest): RequestRefused | null {
    const { slots, outboxes } = this.#ports;
    const added = slots.addRequest(live.slotRequest);
    if (!added.ok) return added;
    const { slot, generation } = added;
    live.slot = slot;
    live.generation = generation;
    this.#live[slot] = live;
    this.#liveCount++;
    this.ids.set(slot, generation, live.request.id);
    outboxes.send(ACTOR_SCHEDULER, { kind: "addRequest", slot, generation });
    return null;
  }

  #admitWaiting(): void {
    if (this.#held) return;
    for (let live = this.#line.first(); live !== undefined; live = this.#line.first()) {
      const refused = this.#admit(live);
      if (refused?.reason === "CAPACITY" && this.#liveCount > 0) break;
      this.#line.shift();
      if (refused !== null) this.#delivery.end(live, live.unserved("CAPACITY", FINISH_ERROR));
    }
  }

  #abort(live: LiveRequest): void {
    if (live.finished || live.aborted) return;
    live.aborted = true;
    if (live.slot === NONE) {
      this.#line.remove(live);
      this.#delivery.end(live, live.unserved(null, FINISH_ABORTED));
      return;
    }
    const { tables, outboxes } = this.#ports;
    // Pairs with a restarted scheduler's load: the message may have died with its predecessor.
    Atomics.or(tables.requests, tables.request(live.slot) + REQUEST_FLAGS, REQUEST_FLAG_ABORTED);
    outboxes.send(ACTOR_SCHEDULER, {
      kind: "abortRequest",
      slot: live.slot,
      generation: live.generation,
    });
    outboxes.flush();
  }

  #take(message: Message): void {
    if (this.#accept(message)) return;
    this.#ports.counters.add(COUNTERS.staleMessages + ACTOR_FRONT_END, 1);
    this.#ports.log.debug(message, "message dropped: late, repeated or unknown");
  }

  /** False when the message is late, repeated or not for a front end. */
  #accept(message: Message): boolean {
    if (message.kind === "localCacheDropped") {
      return this.#drops.answer(message.ticket, message.blocks);
    }
    if (message.kind === "actorRestarted") {
      if (message.actor === ACTOR_SCHEDULER) this.#schedulerRestarted();
      return true;
    }
    if (!("slot" in message)) return false;
    const live = this.#live[message.slot];
    if (live === undefined || live.generation !== message.generation) return false;
    if (message.kind === "tokenGenerated") return this.#delivery.generated(live, message);
    if (message.kind === "requestFinished") return this.#delivery.finished(live, message);
    if (message.kind !== "slotReleased") return false;
    this.#slotReleased(live);
    return true;
  }

  #slotReleased(live: LiveRequest): void {
    if (!live.finished) {
      this.#ports.log.error({ request: live.request.id }, "slot released before the request's end");
      this.#delivery.end(live, live.unserved(null, FINISH_ERROR));
    }
    this.#live[live.slot] = undefined;
    this.#liveCount--;
    this.#ports.slots.release(live.slot);
    this.#admitWaiting();
  }

  #schedulerRestarted(): void {
    for (const live of this.#live) {
      // Before the first token the count in the record may still be that of the slot's last request.
      if (live !== undefined && live.nextIndex > 0) this.#delivery.readMissed(live);
    }
    this.#drops.askAgain();
  }
}

function refuse(reason: SubmitRefusal["reason"], remedy: string): SubmitRefusal {
  return { ok: false, reason, remedy };
}
