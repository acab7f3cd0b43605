import { attachRuntime } from "../../../src/actors/runtime/attach.ts";
import type { Runtime } from "../../../src/actors/runtime/runtime.ts";
import type {
  AttachedConnector,
  AttachOptions,
  FinishedTransfers,
  ScheduledRequest,
} from "../../../src/index.ts";
import { LogLines } from "./log-lines.ts";
import { freshPoolName } from "./serving.ts";

export const BLOCK = 16;
export const BLOCK_COUNT = 64;
export const KV_CACHE = {
  modelName: "org/model",
  dtype: "float16",
  blockSize: BLOCK,
  blockCount: BLOCK_COUNT,
  groups: [{ kind: "full", layers: 2 }],
  heads: { kvHeads: 2, headSize: 8 },
} as const;

const STEPS_MAX = 20_000;
const NAP = new Int32Array(new SharedArrayBuffer(4));

/** A serving loop of its own: hands out blocks, keeps pins, and drives the connector by vLLM's hooks. */
export class EmbeddedLoop {
  readonly log: LogLines;
  readonly attached: AttachedConnector;
  readonly runtime: Runtime;
  readonly #pins: Map<number, number>;
  #nextBlock = 1;

  private constructor(
    attached: AttachedConnector,
    runtime: Runtime,
    log: LogLines,
    pins: Map<number, number>,
  ) {
    this.attached = attached;
    this.runtime = runtime;
    this.log = log;
    this.#pins = pins;
  }

  static async attach(
    extra: Readonly<Record<string, unknown>> = {},
    options: Partial<AttachOptions> = {},
  ): Promise<EmbeddedLoop> {
    const [log, pins] = [new LogLines(), new Map<number, number>()];
    const count = (ids: Int32Array, length: number, by: number): void => {
      for (const id of ids.subarray(0, length)) pins.set(id, (pins.get(id) ?? 0) + by);
    };
    const { attached, runtime } = await attachRuntime({
      kvCache: KV_CACHE,
      kvTransferConfig: {
        kv_connector: "MooncakeStoreConnector",
        kv_role: "kv_both",
        kv_connector_extra_config: { engine: "local", pool_name: freshPoolName(), ...extra },
      },
      blockPool: {
        pin: (ids, length) => count(ids, length, 1),
        unpin: (ids, length) => count(ids, length, -1),
      },
      requestSlots: 32,
      environment: {},
      log,
      logLevel: "silent",
      ...options,
    });
    return new EmbeddedLoop(attached, runtime, log, pins);
  }

  /** Blocks that some job holds. */
  pinned(): number[] {
    return [...this.#pins].filter(([, count]) => count !== 0).map(([block]) => block);
  }

  /** Blocks that nobody has used before. */
  blocks(count: number): number[] {
    const first = this.#nextBlock;
    this.#nextBlock += count;
    if (this.#nextBlock > BLOCK_COUNT) throw new Error("the test uses too many blocks");
    return Array.from({ length: count }, (_, index) => first + index);
  }

  /** One scheduling step, without a turn of the event loop. */
  step(
    scheduled: readonly ScheduledRequest[] = [],
    runModel: () => void = () => undefined,
  ): FinishedTransfers {
    const { scheduler, worker } = this.attached.connector;
    const metadata = scheduler.buildConnectorMeta({ scheduled });
    worker.startLoadKv(metadata);
    if (metadata.hasSyncLoads) worker.waitForLoads(10_000);
    runModel();
    worker.waitForSave(metadata);
    const done = worker.getFinished();
    scheduler.updateConnectorOutput(done);
    return done;
  }

  /** Steps until `ready`, the event loop never turns. */
  stepUntil(ready: (done: FinishedTransfers) => boolean): FinishedTransfers {
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const done = this.step();
      if (ready(done)) return done;
      this.#nap();
    }
    throw new Error(`${STEPS_MAX} steps were not enough`);
  }

  /** A millisecond in which this thread's event loop does not turn. */
  #nap(): void {
    Atomics.wait(NAP, 0, 0, 1);
  }

  /** Asks until the lookup is answered. */
  match(id: string, computedTokens = 0): [number, boolean] {
    const { scheduler } = this.attached.connector;
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const [found, later] = scheduler.getNumNewMatchedTokens(id, computedTokens);
      // An offer is good for this step only: nothing may come between it and `updateStateAfterAlloc`.
      if (found !== null) return [found, later];
      this.step();
      this.#nap();
    }
    throw new Error("the lookup was not answered");
  }

  /** Computes a whole prompt into fresh blocks (filled by `fill`), saves it and ends the request. Returns the blocks. */
  computeAndSave(id: string, prompt: readonly number[], fill: (block: number) => void): number[] {
    const { scheduler } = this.attached.connector;
    scheduler.addRequest(id, prompt);
    this.match(id);
    const blocks = this.blocks(Math.ceil(prompt.length / BLOCK));
    scheduler.updateStateAfterAlloc(id, [blocks], 0);
    const request = { id, numComputedTokens: 0, newBlockIds: null };
    this.step([{ ...request, numScheduledTokens: prompt.length }], () => blocks.forEach(fill));
    scheduler.requestFinished(id, [blocks]);
    this.stepUntil(() => this.pinned().length === 0);
    return blocks;
  }
}

/** `count` token ids that begin differently for each `seed`. */
export function tokens(count: number, seed: number): number[] {
  return Array.from({ length: count }, (_, index) => seed * 1000 + index);
}
