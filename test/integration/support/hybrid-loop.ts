import type { KvCacheConfigInput } from "../../../src/index.ts";
import type { BoundaryState } from "../../../src/connector/hooks.ts";
import { BLOCK_COUNT, EmbeddedLoop } from "./embedded.ts";

export type Rows = readonly (readonly number[])[];

/** A serving loop for models with several groups: rows of any length, bytes of every storage. */
export class HybridLoop {
  readonly loop: EmbeddedLoop;

  readonly #layersOutermost: boolean;

  private constructor(loop: EmbeddedLoop, layersOutermost: boolean) {
    this.loop = loop;
    this.#layersOutermost = layersOutermost;
  }

  static async attach(
    kvCache: Partial<KvCacheConfigInput>,
    extra: Readonly<Record<string, unknown>> = {},
  ): Promise<HybridLoop> {
    const model = {
      modelName: "org/hybrid",
      dtype: "float16",
      blockSize: 16,
      blockCount: BLOCK_COUNT,
      groups: [{ kind: "full", layers: 2 }],
      heads: { kvHeads: 2, headSize: 8 },
    } as const;
    const loop = await EmbeddedLoop.attach(
      { lookup_async: true, ...extra },
      { kvCache: { ...model, ...kvCache } },
    );
    return new HybridLoop(loop, kvCache.layout === "LBHNC");
  }

  /** All bytes of a block: its page in every storage. */
  bytes(block: number): Uint8Array {
    return Buffer.concat(this.#pages(block));
  }
  /** Bytes that differ in every place and for every block and seed. */
  fill(block: number, seed: number): void {
    for (const [storage, page] of this.#pages(block).entries())
      for (let at = 0; at < page.length; at++)
        page[at] = (seed * 89 + block * 31 + storage * 7 + at * 13 + (at >> 8)) & 0xff;
  }
  /** Bytes of each layer of a block, of a model with one group of two layers in one storage with the layers outermost. */
  layers(block: number): number[][] {
    return [0, 1].map((layer) => [...(this.#pages(block)[layer] ?? [])]);
  }
  /** With one group the layers lie one behind the other in the one storage. */
  #pages(block: number): Uint8Array[] {
    const { kvStorages } = this.loop.attached;
    const [only, ...more] = kvStorages;
    if (only !== undefined && more.length === 0) {
      const size = only.byteLength / BLOCK_COUNT / 2;
      const outermost = this.#layersOutermost;
      return [0, 1].map((layer) => {
        const at = outermost ? layer * BLOCK_COUNT + block : 2 * block + layer;
        return new Uint8Array(only, at * size, size);
      });
    }
    return this.loop.attached.kvStorages.map((storage) => {
      const size = storage.byteLength / BLOCK_COUNT;
      return new Uint8Array(storage, block * size, size);
    });
  }

  /** Computes the prompt in one step into `rows`, with the states that it completes, saves it and ends the request. */
  save(
    id: string,
    prompt: readonly number[],
    rows: Rows,
    boundaryPuts: readonly BoundaryState[] = [],
  ): void {
    const { scheduler } = this.loop.attached.connector;
    scheduler.addRequest(id, prompt);
    this.loop.match(id);
    scheduler.updateStateAfterAlloc(id, rows, 0);
    const work = { id, numComputedTokens: 0, numScheduledTokens: prompt.length, newBlockIds: null };
    this.loop.step([{ ...work, boundaryPuts }]);
    scheduler.requestFinished(id, rows);
    this.drain();
  }

  /** Looks the prompt up and loads what is found into `rows(found)`; returns the tokens found. */
  load(id: string, prompt: readonly number[], rows: (found: number) => Rows): number {
    const { scheduler } = this.loop.attached.connector;
    scheduler.addRequest(id, prompt);
    const [found] = this.loop.match(id);
    scheduler.updateStateAfterAlloc(id, rows(found), found);
    if (found > 0) {
      const done = this.loop.stepUntil(({ finishedRecving }) => finishedRecving.includes(id));
      if (done.failedLoads.length > 0) throw new Error("the load failed");
    }
    scheduler.requestFinished(id);
    this.drain();
    return found;
  }

  drain(): void {
    this.loop.stepUntil(() => this.loop.attached.connector.idle());
  }
  async stop(): Promise<number> {
    return await this.loop.attached.stop();
  }
}
