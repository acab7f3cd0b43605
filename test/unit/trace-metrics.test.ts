/**
 * Goal: what actors count on their threads is what a scrape shows, under exactly vLLM's names, in valid text format.
 * Method: a worker thread and this thread write blocks of one buffer at the same time; the scraped text is parsed line by
 * line by a reader of the format and compared with what was written. Names and buckets are compared with vLLM's.
 */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { OUTCOME_HIT, OUTCOME_TIMEOUT, ACTOR_LOADER } from "../../src/actors/messages.ts";
import {
  CounterBlock,
  COUNTERS,
  createCounterBuffer,
  GAUGES,
  STORE_LOAD_GET,
  STORE_OK,
  STORE_PARTIAL_FAILURE,
  STORE_SAVE_PUT,
  counterWriters,
} from "../../src/trace/counters.ts";
import { Metrics } from "../../src/trace/metrics.ts";
import { workerEntry } from "../../src/worker-entry.ts";

interface Exposition {
  readonly types: Map<string, string>;
  readonly samples: Map<string, number>;
}

/** Reads text format 0.0.4 strictly: every line is blank, HELP, TYPE or a sample of a family announced before. */
function parse(text: string): Exposition {
  const types = new Map<string, string>();
  const samples = new Map<string, number>();
  const helped = new Set<string>();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const help = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) \S.*$/.exec(line);
    const type = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram)$/.exec(line);
    const sample =
      /^([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)$/.exec(line);
    if (help?.[1] !== undefined) helped.add(help[1]);
    else if (type?.[1] !== undefined) types.set(type[1], type[2] ?? "");
    else if (sample?.[1] !== undefined) {
      const family = [sample[1], sample[1].replace(/_(bucket|sum|count)$/, "")].find((name) =>
        types.has(name),
      );
      expect(family, line).toBeDefined();
      expect(helped.has(family ?? ""), line).toBe(true);
      const value = Number(sample[3]);
      expect(value, line).not.toBeNaN();
      const key = `${sample[1]}{${(sample[2] ?? "").split(",").toSorted().join(",")}}`;
      expect(samples.has(key), `twice: ${line}`).toBe(false);
      samples.set(key, value);
    } else expect.fail(`not in the text format: ${line}`);
  }
  return { types, samples };
}

const BASE = 'engine="0",model_name="m"';
const key = (name: string, ...labels: string[]): string =>
  `${name}{${[...BASE.split(","), ...labels].toSorted().join(",")}}`;

async function scrape(buffer: SharedArrayBuffer): Promise<Exposition> {
  const metrics = new Metrics();
  metrics.addSource({ modelName: "m", engine: "0", counters: buffer });
  return parse(await metrics.text());
}

describe("metrics", () => {
  it("exposes exactly these families", async () => {
    const { types } = await scrape(createCounterBuffer(1));
    expect(Object.fromEntries(types)).toEqual({
      "vllm:mooncake_store_operation_time_seconds": "histogram",
      "vllm:mooncake_store_operation_total": "counter",
      "vllm:mooncake_store_operation_keys_total": "counter",
      "vllm:mooncake_store_operation_bytes_total": "counter",
      "vllm:mooncake_store_operation_failed_keys_total": "counter",
      "vllm:external_prefix_cache_queries_total": "counter",
      "vllm:external_prefix_cache_hits_total": "counter",
      "vllm:prefix_cache_queries_total": "counter",
      "vllm:prefix_cache_hits_total": "counter",
      "vllm:num_preemptions_total": "counter",
      "vllm:num_requests_running": "gauge",
      "vllm:num_requests_waiting": "gauge",
      "vllm:kv_cache_usage_perc": "gauge",
      "vllm:time_to_first_token_seconds": "histogram",
      "vllm:e2e_request_latency_seconds": "histogram",
      "vllm:kv_offload_lookup_sync_delay_seconds": "histogram",
      "vllm:kv_offload_lookup_async_delay_seconds": "histogram",
      mooncake_kv_load_back_pressure_total: "counter",
      mooncake_kv_saves_postponed_total: "counter",
      mooncake_kv_saves_after_end_total: "counter",
      mooncake_kv_saves_lost_total: "counter",
      mooncake_kv_lookups_total: "counter",
      mooncake_kv_lookup_rpc_total: "counter",
      mooncake_kv_pool_closed: "gauge",
      mooncake_kv_hit_tokens_total: "counter",
      mooncake_kv_loads_total: "counter",
      mooncake_kv_loaded_keys_total: "counter",
      mooncake_kv_loaded_bytes_total: "counter",
      mooncake_kv_saves_total: "counter",
      mooncake_kv_actor_restarts_total: "counter",
      mooncake_kv_stale_messages_total: "counter",
      mooncake_kv_trace_lost_events_total: "counter",
      mooncake_kv_events_published_total: "counter",
      mooncake_kv_events_lost_total: "counter",
      mooncake_kv_pool_evictions_total: "counter",
      mooncake_kv_request_slots_in_use: "gauge",
      mooncake_kv_pinned_blocks: "gauge",
      mooncake_kv_quarantined_blocks: "gauge",
      mooncake_kv_requests_parked: "gauge",
      mooncake_kv_batches_in_flight: "gauge",
      mooncake_kv_engine_hung_calls: "gauge",
      mooncake_kv_engine_open: "gauge",
      mooncake_kv_engine_reopenings_total: "counter",
      mooncake_kv_pool_bytes: "gauge",
      mooncake_kv_pool_capacity_bytes: "gauge",
      mooncake_kv_pool_keys: "gauge",
    });
  });

  it("store operations carry vLLM's labels, and its buckets from 1 ms to 4 s, cumulative", async () => {
    const buffer = createCounterBuffer(2);
    const loader = new CounterBlock(buffer, 0);
    const saver = new CounterBlock(buffer, 1);
    for (const seconds of [0.0005, 0.001, 0.02, 5])
      loader.storeOperation(STORE_LOAD_GET, STORE_OK, 8, 1024, 0, seconds);
    saver.storeOperation(STORE_SAVE_PUT, STORE_PARTIAL_FAILURE, 16, 4096, 3, 0.25);
    const { samples } = await scrape(buffer);
    const get = ['operation="load_get"', 'status="ok"'];
    const put = ['operation="save_put"', 'status="partial_failure"'];
    const name = "vllm:mooncake_store_operation";
    expect(samples.get(key(`${name}_total`, ...get))).toBe(4);
    expect(samples.get(key(`${name}_keys_total`, ...get))).toBe(32);
    expect(samples.get(key(`${name}_bytes_total`, ...get))).toBe(4096);
    expect(samples.get(key(`${name}_failed_keys_total`, ...get))).toBe(0);
    expect(samples.get(key(`${name}_total`, ...put))).toBe(1);
    expect(samples.get(key(`${name}_failed_keys_total`, ...put))).toBe(3);
    const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 4];
    const buckets = bounds.map((bound) =>
      samples.get(key(`${name}_time_seconds_bucket`, ...get, `le="${bound}"`)),
    );
    expect(buckets).toEqual([2, 2, 2, ...Array.from({ length: 12 }, () => 3)]);
    expect(samples.get(key(`${name}_time_seconds_bucket`, ...get, 'le="+Inf"'))).toBe(4);
    expect(samples.get(key(`${name}_time_seconds_count`, ...get))).toBe(4);
    expect(samples.get(key(`${name}_time_seconds_sum`, ...get))).toBeCloseTo(5.0215, 9);
  });

  it("adds up what a worker thread and this thread count at the same time", async () => {
    const buffer = createCounterBuffer(2);
    const rounds = 200_000;
    const worker = new Worker(
      `const { workerData } = require("node:worker_threads");
       import(workerData.url).then(({ CounterBlock, COUNTERS, GAUGES, HISTOGRAM_NUMBERS }) => {
         const block = new CounterBlock(workerData.buffer, 1);
         for (let round = 0; round < workerData.rounds; round++) {
           block.add(COUNTERS.lookups + 2, 1);
           block.add(COUNTERS.externalPrefixCacheHits, 2 ** 33);
           block.observe(HISTOGRAM_NUMBERS.timeToFirstToken, 0.002);
         }
         block.set(GAUGES.batchesInFlight + 2, 7);
       });`,
      { eval: true, workerData: { buffer, rounds, url: workerEntry("trace/counters.js").href } },
    );
    const exited = once(worker, "exit");
    const block = new CounterBlock(buffer, 0);
    for (let round = 0; round < rounds; round++) block.add(COUNTERS.lookups + OUTCOME_HIT, 1);
    block.add(COUNTERS.lookups + OUTCOME_TIMEOUT, 1);
    block.set(GAUGES.cacheUsage, 0.25);
    expect(await exited).toEqual([0]);
    const { samples } = await scrape(buffer);
    expect(samples.get(key("mooncake_kv_lookups_total", 'outcome="HIT"'))).toBe(2 * rounds);
    expect(samples.get(key("mooncake_kv_lookups_total", 'outcome="TIMEOUT"'))).toBe(1);
    expect(samples.get(key("vllm:external_prefix_cache_hits_total"))).toBe(rounds * 2 ** 33);
    expect(samples.get(key("vllm:time_to_first_token_seconds_bucket", 'le="0.001"'))).toBe(0);
    expect(samples.get(key("vllm:time_to_first_token_seconds_bucket", 'le="0.005"'))).toBe(rounds);
    expect(samples.get(key("vllm:time_to_first_token_seconds_count"))).toBe(rounds);
    expect(samples.get(key("mooncake_kv_batches_in_flight", 'actor="loader"'))).toBe(7);
    expect(samples.get(key("vllm:kv_cache_usage_perc"))).toBe(0.25);
  });

  it("a successor keeps counters and starts gauges anew; blocks of writers do not share cache lines", () => {
    const buffer = createCounterBuffer(3);
    const dead = new CounterBlock(buffer, 1);
    dead.add(COUNTERS.loads + OUTCOME_HIT, 5);
    dead.set(GAUGES.batchesInFlight + ACTOR_LOADER, 4);
    new CounterBlock(buffer, 2).set(GAUGES.batchesInFlight + ACTOR_LOADER, 1);
    const successor = new CounterBlock(buffer, 1);
    successor.resetGauges();
    expect(successor.value(COUNTERS.loads + OUTCOME_HIT)).toBe(5);
    expect(successor.value(GAUGES.batchesInFlight + ACTOR_LOADER)).toBe(0);
    expect(new CounterBlock(buffer, 2).value(GAUGES.batchesInFlight + ACTOR_LOADER)).toBe(1);
    expect(counterWriters(buffer)).toBe(3);
    expect((buffer.byteLength / 3) % 64).toBe(0);
    expect(() => new CounterBlock(buffer, 3)).toThrow(/counter block writer.*got 3/);
  });

  it("shows several sources by their labels, refreshes before a scrape, and forgets a source that left", async () => {
    const metrics = new Metrics();
    const first = createCounterBuffer(1);
    const second = createCounterBuffer(1);
    const pool = new CounterBlock(first, 0);
    let keys = 0;
    metrics.addSource({
      modelName: "m",
      engine: "0",
      counters: first,
      refresh: () => pool.set(GAUGES.poolKeys, ++keys),
    });
    const leave = metrics.addSource({ modelName: 'quote"d', engine: "1", counters: second });
    new CounterBlock(second, 0).set(GAUGES.poolKeys, 9);
    const both = parse(await metrics.text());
    expect(both.samples.get(key("mooncake_kv_pool_keys"))).toBe(1);
    expect(both.samples.get('mooncake_kv_pool_keys{engine="1",model_name="quote\\"d"}')).toBe(9);
    leave();
    const one = parse(await metrics.text());
    expect(one.samples.get(key("mooncake_kv_pool_keys"))).toBe(2);
    expect([...one.samples.keys()].filter((name) => name.includes('engine="1"'))).toEqual([]);
    expect(metrics.contentType).toMatch(/^text\/plain; version=0\.0\.4/);
  });
});
