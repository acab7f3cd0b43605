/** Maps the calls of a recorded vLLM scheduler onto the scheduler side's hooks and notes every difference. */
import { isDeepStrictEqual } from "node:util";
import { OUTCOME_ENGINE_ERROR, OUTCOME_HIT } from "../../src/actors/messages.ts";
import { JOB_LOCAL_TOKENS, JOB_STORE_ID, JOB_TOKENS, NONE } from "../../src/blocks/layout.ts";
import { FAILURE_BASE, IN_FLIGHT } from "../../src/connector/hooks.ts";
import type { ConnectorMetadata } from "../../src/connector/hooks.ts";
import { addDoneLoad, addDoneSave, createConnectorOutput } from "../../src/connector/outputs.ts";
import { ConnectorBench } from "../unit/connector-bench.ts";
import type { VectorConfig } from "./vectors.ts";

type BlockIds = readonly (readonly number[])[];
interface MatchedCall {
  readonly call: "get_num_new_matched_tokens";
  readonly req_id: string;
  readonly num_tokens: number;
  readonly num_computed_tokens: number;
  readonly lookup_hit: number | null;
  readonly result: readonly [number | null, boolean];
}
interface AllocatedCall {
  readonly call: "update_state_after_alloc";
  readonly req_id: string;
  readonly block_ids: BlockIds;
  readonly num_external_tokens: number;
}
interface StepRequest {
  readonly req_id: string;
  readonly num_computed_tokens: number;
  readonly num_scheduled_tokens: number;
  readonly num_prefill_tokens?: number;
  readonly num_all_tokens?: number;
}
interface RequestMeta {
  readonly req_id: string;
  readonly can_save: boolean;
  readonly token_len_chunk: number;
  readonly token_ids_start: number;
  readonly block_ids: BlockIds;
  readonly load_spec: {
    readonly vllm_cached_tokens: number;
    readonly kvpool_cached_tokens: number;
  } | null;
  readonly store_job_id: number | null;
}
interface BuildCall {
  readonly call: "build_connector_meta";
  readonly finished: readonly string[];
  readonly preempted: readonly string[];
  readonly new: readonly StepRequest[];
  readonly cached: readonly StepRequest[];
  readonly block_tables: Readonly<Record<string, BlockIds>>;
  readonly meta: { readonly requests: readonly RequestMeta[] };
}
interface OutputCall {
  readonly call: "update_connector_output";
  readonly completed_saves: Readonly<Record<string, number>>;
}
type Pins = Readonly<Record<string, readonly [readonly number[], number]>>;
type TraceCall = (MatchedCall | AllocatedCall | BuildCall | OutputCall) & {
  readonly pinned_after?: Pins;
};
export interface SchedulerTrace {
  readonly config: VectorConfig & { readonly kv_role?: "kv_both" | "kv_producer" | "kv_consumer" };
  readonly calls: readonly TraceCall[];
}

export interface Comparison {
  readonly calls: number;
  readonly saves: number;
  readonly savesWanted: number;
  readonly differences: readonly unknown[];
}

export function replay(trace: SchedulerTrace): Comparison {
  const driver = new TraceDriver(trace.config);
  for (const call of trace.calls) driver.step(call);
  return driver;
}

class TraceDriver implements Comparison {
  calls = 0;
  saves = 0;
  savesWanted = 0;
  readonly differences: unknown[] = [];
  readonly #bench: ConnectorBench;
  readonly #blockSize: number;
  readonly #lookupAsync: boolean;
  readonly #loadAsync: boolean;
  readonly #slots = new Map<string, number>();
  readonly #names = new Map<number, string>();
  /** The load that a request waits for. */
  readonly #loads = new Map<string, number>();
  /** Live save jobs by store job id. */
  readonly #stores = new Map<number, number>();
  #pins: Pins = {};
  #script = NONE;

  constructor(config: SchedulerTrace["config"]) {
    const extra = config.extra_config ?? {};
    const role = config.kv_role ?? "kv_both";
    const saveDecodeCache = extra["save_decode_cache"] === true;
    this.#blockSize = config.block_size ?? 16;
    this.#lookupAsync = extra["lookup_async"] === true;
    this.#loadAsync = extra["load_async"] !== false;
    this.#bench = new ConnectorBench({
      dimensions: {
        requestSlots: 32,
        jobSlots: 128,
        blockCount: 4096,
        blockSize: this.#blockSize,
        hashBlockSize: this.#blockSize,
        tokensPerRequestMax: 2048,
        tokensMax: 32 * 2048,
      },
      settings: {
        role,
        saveDecodeCache,
        canSave: role !== "kv_consumer" || saveDecodeCache,
        lookupAsync: this.#lookupAsync,
        loadAsync: this.#loadAsync,
        enableLookup: extra["enable_lookup"] !== false,
        answerLifetimeMs: 0,
        loadRetriesMax: 1_000,
      },
      waitLookup: (slot, _seen, timeoutMs) => {
        if (this.#script === NONE) throw new Error("the trace asked no lookup here");
        this.#bench.publishHit(slot, this.#script);
        return timeoutMs;
      },
    });
  }

  step(call: TraceCall): void {
    this.calls++;
    if (call.call === "get_num_new_matched_tokens") this.#matched(call);
    else if (call.call === "update_state_after_alloc") this.#allocated(call);
    else if (call.call === "build_connector_meta") this.#build(call);
    else this.#output(call);
    if (call.pinned_after !== undefined) this.#pins = call.pinned_after;
    this.#compare("pinned_after", this.#pinned(), normalPins(this.#pins));
    // Between an allocation and the end of its step a load is pinned without being in any metadata.
    if (call.call === "build_connector_meta") this.#comparePool();
  }

  #matched(call: MatchedCall): void {
    const slot = this.#slot(call.req_id, call.num_tokens);
    this.#bench.setTokens(slot, call.num_tokens);
    // Asked again while a load was on its way: the load has failed.
    this.#endLoad(call.req_id, call.num_computed_tokens);
    this.#script = call.lookup_hit ?? NONE;
    let result = this.#bench.hooks.matchedTokens(slot, call.num_computed_tokens);
    if (result === IN_FLIGHT && this.#lookupAsync && call.lookup_hit !== null) {
      // vLLM's future was done within the call; ours is answered between two polls.
      this.#bench.answerHit(slot, call.lookup_hit);
      result = this.#bench.hooks.matchedTokens(slot, call.num_computed_tokens);
    }
    this.#script = NONE;
    // The message comes after the word that a blocking lookup has read.
    for (const lookup of this.#bench.take("lookup"))
      if (!this.#lookupAsync) this.#bench.lookupDone(lookup.slot, lookup.attempt);
    const tokens = result === IN_FLIGHT ? null : result <= FAILURE_BASE ? 0 : result;
    this.#compare("matched", [tokens, (tokens ?? 0) > 0 && this.#loadAsync], call.result);
  }

  #allocated(call: AllocatedCall): void {
    const slot = this.#slots.get(call.req_id) ?? NONE;
    this.#bench.setRow(slot, call.block_ids[0] ?? []);
    this.#bench.hooks.blocksAllocated(slot, call.num_external_tokens);
  }

  #build(call: BuildCall): void {
    for (const name of call.finished) {
      const slot = this.#slots.get(name) ?? NONE;
      this.#endLoad(name, Infinity);
      this.#bench.hooks.requestFinished(slot);
      this.#slots.delete(name);
    }
    for (const name of call.preempted) {
      this.#endLoad(name, Infinity);
      this.#bench.hooks.preempted(this.#slots.get(name) ?? NONE);
    }
    for (const request of [...call.new, ...call.cached]) {
      const slot = this.#slots.get(request.req_id) ?? NONE;
      this.#bench.setTokens(slot, request.num_all_tokens ?? request.num_prefill_tokens ?? 0);
      const row = call.block_tables[request.req_id];
      if (row !== undefined) this.#bench.setRow(slot, row[0] ?? []);
      this.#endLoad(request.req_id, request.num_computed_tokens);
      const { num_computed_tokens: computed, num_scheduled_tokens: tokens } = request;
      this.#bench.hooks.scheduled(slot, computed, tokens);
    }
    const metadata = this.#bench.hooks.buildMetadata();
    this.#compareSaves(call, metadata);
    this.#compareLoads(call, metadata);
  }

  #compareSaves(call: BuildCall, metadata: ConnectorMetadata): void {
    const ours = [...metadata.saves.subarray(0, metadata.saveCount)].map((job) => {
      const store = this.#bench.job(job, JOB_STORE_ID);
      this.#stores.set(store, job);
      return {
        request: this.#names.get(this.#bench.hooks.jobSlot(job)),
        store,
        from: this.#bench.chunks(job).first * this.#blockSize,
        tokens: this.#bench.job(job, JOB_TOKENS),
        blocks: this.#bench.savedRow(job),
      };
    });
    const wanted = call.meta.requests
      .filter((meta) => meta.can_save)
      .map((meta) => ({
        request: meta.req_id,
        store: meta.store_job_id,
        from: meta.token_ids_start,
        tokens: meta.token_len_chunk,
        blocks: meta.block_ids[0],
      }));
    this.saves += ours.length;
    this.savesWanted += wanted.length;
    this.#compare("saves", ours, wanted);
  }

  #compareLoads(call: BuildCall, metadata: ConnectorMetadata): void {
    const ours = [...metadata.loads.subarray(0, metadata.loadCount)].map((job) => {
      const request = this.#names.get(this.#bench.hooks.jobSlot(job)) ?? "";
      this.#loads.set(request, job);
      return {
        request,
        local: this.#bench.job(job, JOB_LOCAL_TOKENS),
        pool: this.#bench.job(job, JOB_TOKENS),
        blocks: this.#bench.chunkRow(job),
      };
    });
    const wanted = call.meta.requests.flatMap((meta) => {
      if (meta.load_spec === null) return [];
      const { vllm_cached_tokens: local, kvpool_cached_tokens: pool } = meta.load_spec;
      const blocks = meta.block_ids[0]?.slice(
        Math.floor(local / this.#blockSize),
        pool / this.#blockSize,
      );
      return [{ request: meta.req_id, local, pool, blocks }];
    });
    this.#compare("loads", byRequest(ours), byRequest(wanted));
  }

  #output(call: OutputCall): void {
    const output = createConnectorOutput(128);
    for (const [store, ranks] of Object.entries(call.completed_saves)) {
      if (ranks !== 1) throw new Error("the traces have one rank");
      const job = this.#stores.get(Number(store));
      if (job === undefined) throw new Error(`store job ${store} was never made`);
      this.#stores.delete(Number(store));
      addDoneSave(output, job, OUTCOME_HIT);
    }
    this.#bench.hooks.applyOutput(output);
  }

  /** Ends the request's load: well when it goes on with all of its tokens, otherwise bad from the first missing one on. */
  #endLoad(name: string, computedTokens: number): void {
    const job = this.#loads.get(name);
    if (job === undefined) return;
    this.#loads.delete(name);
    const output = createConnectorOutput(128);
    const good = computedTokens >= this.#bench.job(job, JOB_TOKENS);
    const bad = good ? NONE : computedTokens / this.#blockSize;
    addDoneLoad(output, job, good ? OUTCOME_HIT : OUTCOME_ENGINE_ERROR, bad);
    this.#bench.hooks.applyOutput(output);
    // The traces know no engine health: three failed loads do not stop lookups there.
    if (!good) this.#bench.hooks.health.lookupSucceeded();
  }

  #slot(name: string, tokens: number): number {
    const known = this.#slots.get(name);
    if (known !== undefined) return known;
    const slot = this.#bench.addRequest(tokens);
    this.#slots.set(name, slot);
    this.#names.set(slot, name);
    return slot;
  }

  #pinned(): unknown {
    const pins: Record<string, [number[], number]> = {};
    for (const [store, job] of this.#stores)
      pins[store] = [this.#bench.savedRow(job).sort(ascending), 1];
    return pins;
  }

  /** The pool holds exactly the blocks of running saves and loads. */
  #comparePool(): void {
    const held = new Set<number>();
    for (const job of this.#stores.values())
      for (const block of this.#bench.row(job)) held.add(block);
    for (const job of this.#loads.values())
      for (const block of this.#bench.row(job)) held.add(block);
    this.#compare("block pool", this.#bench.pinnedBlocks(), [...held].sort(ascending));
  }

  #compare(what: string, ours: unknown, wanted: unknown): void {
    if (!isDeepStrictEqual(ours, wanted))
      this.differences.push({ call: this.calls - 1, what, ours, wanted });
  }
}

const ascending = (left: number, right: number): number => left - right;

function byRequest<Entry extends { readonly request: string }>(entries: Entry[]): Entry[] {
  return entries.sort((left, right) => (left.request < right.request ? -1 : 1));
}

function normalPins(pins: Pins): unknown {
  return Object.fromEntries(
    Object.entries(pins).map(([store, [blocks, left]]) => [
      store,
      [[...blocks].sort(ascending), left],
    ]),
  );
}
