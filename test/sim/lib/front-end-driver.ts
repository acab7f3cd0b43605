import {
  ACTOR_FRONT_END,
  ACTOR_SCHEDULER,
  FINISH_ABORTED,
  FINISH_ERROR,
  FINISH_LENGTH,
  type Message,
} from "../../../src/actors/messages.ts";
import type { SimulatedHost } from "../../../src/actors/hosts/simulated/host.ts";
import { modelTruth } from "../../../src/actors/hosts/simulated/model-truth.ts";
import type { Actor, ActorContext, Inbox } from "../../../src/actors/step.ts";
import {
  REQUEST_FLAG_ABORTED,
  REQUEST_FLAG_IGNORE_END_TOKENS,
  REQUEST_FLAG_NO_REUSE,
  REQUEST_FLAGS,
  REQUEST_TOKEN_PAGE,
} from "../../../src/blocks/layout.ts";
import type { RequestSlots } from "../../../src/blocks/request-slots.ts";
import type { Tables } from "../../../src/blocks/tables.ts";
import { HASH_ALGORITHMS } from "../../../src/config/kv-cache-config.ts";
import { encodeExtraWords } from "../../../src/keys/block-extra.ts";
import type { PlannedRequest, RunPlan } from "./workload.ts";

/** Above this, ten tries of one step may well fail. */
const MODEL_FAILS_FOR_GOOD = 0.3;

interface Live {
  readonly request: PlannedRequest;
  readonly slot: number;
  readonly generation: number;
  readonly announced: Map<number, number>;
  aborted: boolean;
  finished: boolean;
  released: boolean;
}

/** Front end of a simulated run: adds requests when they arrive, aborts some, and compares every answer with the truth. */
export class FrontEndDriver implements Actor {
  readonly errors: string[] = [];
  ended = 0;
  /** Requests that ended with FINISH_ERROR, where the plan allows it. */
  failed = 0;
  /** Messages about a request that had ended before: only after a death of the scheduler. */
  repeated = 0;
  poolTokens = 0;
  localTokens = 0;
  readonly #host: SimulatedHost;
  readonly #tables: Tables;
  readonly #slots: RequestSlots;
  readonly #plan: RunPlan;
  #stopping = false;
  readonly #waiting: PlannedRequest[] = [];
  readonly #live = new Map<number, Live>();

  constructor(host: SimulatedHost, tables: Tables, slots: RequestSlots, plan: RunPlan) {
    this.#host = host;
    this.#tables = tables;
    this.#slots = slots;
    this.#plan = plan;
  }

  arrive(request: PlannedRequest): void {
    if (this.#stopping) return;
    this.#waiting.push(request);
    this.#admit();
  }

  /** Nothing is admitted any more, as when a server closes. */
  stop(): void {
    this.#stopping = true;
    this.#waiting.length = 0;
  }

  liveRequests(): number {
    return this.#live.size + this.#waiting.length;
  }
  describe(): string {
    return [...this.#live.values()]
      .map(
        (live) =>
          `slot ${live.slot} prompt ${live.request.prompt.length} finished ${live.finished} aborted ${live.aborted}`,
      )
      .join("; ");
  }

  step(inbox: Inbox, _tables: Tables, _context: ActorContext): number {
    for (let message = inbox.next(); message !== null; message = inbox.next()) this.#take(message);
    this.#admit();
    return Infinity;
  }

  idle(): boolean {
    return this.#live.size === 0;
  }

  #admit(): void {
    for (let request = this.#waiting[0]; request !== undefined; request = this.#waiting[0]) {
      const added = this.#slots.addRequest({
        tokens: Int32Array.from(request.prompt),
        tokensMax: request.prompt.length + request.maxTokens,
        extras: encodeExtraWords(
          {
            tokens: request.prompt,
            blockSize: this.#plan.hashBlockSize,
            cacheSalt: request.cacheSalt,
          },
          1,
          HASH_ALGORITHMS[this.#plan.hashAlgorithm].encoding,
        ),
        flags: REQUEST_FLAG_IGNORE_END_TOKENS | (request.noReuse ? REQUEST_FLAG_NO_REUSE : 0),
      });
      if (!added.ok) return;
      this.#waiting.shift();
      const { slot, generation } = added;
      const live: Live = {
        request,
        slot,
        generation,
        announced: new Map(),
        aborted: false,
        finished: false,
        released: false,
      };
      this.#live.set(slot, live);
      this.#host.send(ACTOR_SCHEDULER, { kind: "addRequest", slot, generation });
      if (request.abortMs !== Infinity) {
        this.#host.clock.schedule(request.abortMs - this.#host.clock.nowMs, () =>
          this.#abort(live),
        );
      }
    }
  }

  #abort(live: Live): void {
    if (live.finished || live.released) return;
    live.aborted = true;
    const { slot, generation } = live;
    // Pairs with a restarted scheduler's read, as the real front end does it.
    Atomics.or(
      this.#tables.requests,
      this.#tables.request(slot) + REQUEST_FLAGS,
      REQUEST_FLAG_ABORTED,
    );
    this.#host.send(ACTOR_SCHEDULER, { kind: "abortRequest", slot, generation });
  }

  #take(message: Message): void {
    if (
      message.kind !== "tokenGenerated" &&
      message.kind !== "requestFinished" &&
      message.kind !== "slotReleased"
    )
      return;
    const live = this.#live.get(message.slot);
    if (live === undefined || live.generation !== message.generation) {
      this.#notLive(message);
    } else if (message.kind === "tokenGenerated") {
      const before = live.announced.get(message.index);
      if (before !== undefined && before !== message.token)
        this.errors.push(`token ${message.index} announced twice, differently`);
      live.announced.set(message.index, message.token);
    } else if (message.kind === "requestFinished") {
      if (live.finished) return this.#notLive(message);
      live.finished = true;
      this.ended++;
      this.poolTokens += message.poolTokens;
      this.localTokens += message.localTokens;
      this.#check(live, message.reason, message.outputTokens);
    } else {
      if (!live.finished)
        this.errors.push(`slot ${live.slot} released before its request finished`);
      live.released = true;
      this.#live.delete(live.slot);
      this.#slots.release(live.slot);
    }
  }

  #mayFail(): boolean {
    const { settings, faults } = this.#plan;
    return settings.loadFailurePolicy === "fail" || faults.modelFailure > MODEL_FAILS_FOR_GOOD;
  }

  /** A scheduler that dies between saying something and noting it leaves a successor who says it again. */
  #notLive({ kind, slot, generation }: { kind: string; slot: number; generation: number }): void {
    this.repeated++;
    if (this.#host.deathsOf(ACTOR_SCHEDULER) === 0)
      this.errors.push(`${kind} for slot ${slot} generation ${generation}, which is not live`);
  }

  /** The answer lies in the token row; what was announced must agree with it, and both with the model's truth. */
  #check(live: Live, reason: number, outputTokens: number): void {
    const { prompt, maxTokens } = live.request;
    const record = this.#tables.request(live.slot);
    const page = this.#tables.requests[record + REQUEST_TOKEN_PAGE] ?? 0;
    const output = Array.from({ length: outputTokens }, (_, index) =>
      this.#tables.tokens.get(page, prompt.length + index),
    );
    const truth = modelTruth(prompt, maxTokens, this.#plan.shape);
    if (output.some((token, index) => token !== truth[index])) {
      this.errors.push(
        `slot ${live.slot}: wrong text ${output.join(",")} instead of ${truth.join(",")}`,
      );
    }
    for (const [index, token] of live.announced) {
      if (token !== truth[index])
        this.errors.push(
          `slot ${live.slot}: token ${index} announced as ${token}, truth ${truth[index]}`,
        );
    }
    if ((live.aborted || this.#stopping) && reason === FINISH_ABORTED) return;
    if (reason === FINISH_ERROR && this.#mayFail()) {
      this.failed++;
      return;
    }
    if (reason !== FINISH_LENGTH)
      this.errors.push(`slot ${live.slot}: ended with reason ${reason}`);
    if (outputTokens !== maxTokens)
      this.errors.push(`slot ${live.slot}: ${outputTokens} of ${maxTokens} tokens`);
  }
}

export const FRONT_END_PLAN = (driver: FrontEndDriver): { actor: number; create: () => Actor } => ({
  actor: ACTOR_FRONT_END,
  create: () => driver,
});
