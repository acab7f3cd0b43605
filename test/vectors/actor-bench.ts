/**
 * The real saver or loader on real tables against a recorded trace: a scripted channel answers; what it was asked and what the actor
 * counted and told of it is given back.
 */
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { PageAllocator } from "../../src/blocks/page-arena.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import { createEventRing } from "../../src/events/event-ring.ts";
import { KvEventWriter } from "../../src/events/event-records.ts";
import { KvEventSource } from "../../src/events/event-source.ts";
import type { KvEvent } from "../../src/events/kv-events.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { blockSegments } from "../../src/keys/kv-tensors.ts";
import { lifecycleGroup, poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import type { StorageSegment } from "../../src/keys/segments.ts";
import { selectStoreShape } from "../../src/keys/store-shape.ts";
import { planKeySpace } from "../../src/store/key-spaces.ts";
import { keyText } from "../../src/store/model-engine.ts";
import { ActorWorld } from "../unit/store-world.ts";
import { FigureNotes } from "./figures.ts";
import type { CaseCheck } from "./runner/cases.ts";
import type { FileCall } from "./runner/worker-bench.ts";
import { ScriptedChannel } from "./scripted-channel.ts";
import { hitRulesOf, namespaceOf, topologyOf } from "./vectors.ts";
import type { VectorConfig, VectorRank } from "./vectors.ts";

export interface BenchTrace {
  readonly config: VectorConfig;
  readonly rank: VectorRank;
}

type WrittenJob = Parameters<ActorWorld["writeJob"]>[0];
export interface BenchJob extends Pick<WrittenJob, "job" | "kind" | "slot" | "generation"> {
  readonly rows: readonly (readonly number[])[];
  readonly hashes: readonly string[];
  /** The request's, for events. */
  readonly tokens?: readonly number[];
  /** Chunks that the job is about, where it is not planned. */
  readonly from: number;
  readonly to: number;
  readonly planned: Omit<NonNullable<WrittenJob["planned"]>, "hashes">;
}

const OPERATIONS = new Map([
  [layout.OPERATION_EXISTS, "is_exist"],
  [layout.OPERATION_PUT, "put"],
  [layout.OPERATION_GET, "get"],
]);
const EVENT_WORDS = 1 << 14;
const REQUESTS_MAX = 64;
/** One chain holds the hashes of whatever job runs. */
const HASH_PAGE = 0;

export class ActorBench {
  readonly world: ActorWorld;
  readonly channel = new ScriptedChannel();
  readonly context: ActorContext;
  readonly rules: HitRules;
  readonly workers;
  readonly events: KvEventWriter;
  /** What the actor counted of the last job, once it is given these as its metrics. */
  readonly figures = new FigureNotes();
  readonly #eventSource: KvEventSource;
  readonly #tokenPages: PageAllocator;
  readonly #tokenPageOfSlot = new Map<number, number>();
  readonly #digestBytes: number;
  /** By value number. */
  readonly #values: readonly (readonly StorageSegment[])[];
  /** As the engine is set: puts name the group of each value. */
  readonly #namesGroups: boolean;

  /** `planned`: work jobs off as plans also where chunk numbers would do. `digestBytes`: of the trace's hashes. */
  constructor({ config, rank }: BenchTrace, planned: boolean, digestBytes: number) {
    this.#digestBytes = digestBytes;
    this.#namesGroups = groupsNamed(config);
    const topology = topologyOf(config, rank);
    const namespace = namespaceOf(config);
    const shape = selectStoreShape(topology, namespace.storeTp ?? null);
    const { groups } = poolKeyPrefixes(topology, namespace);
    const segments = blockSegments(topology, shape.tpSize);
    this.#values = segments.flat();
    const plan = planKeySpace({
      tensorParallelRank: rank.tp,
      groups,
      segments: segments.map((values) =>
        values.map((value) => value.map((each) => ({ ...each, regionId: each.storage }))),
      ),
    });
    const rules = hitRulesOf(config);
    const oneValue = segments.every((values) => values.length === 1);
    this.rules = { ...rules, uniform: rules.uniform && oneValue && !planned };
    this.world = new ActorWorld({
      rules: this.rules,
      dimensions: {
        requestSlots: REQUESTS_MAX,
        blockSize: rules.blockTokens,
        hashBlockSize: rules.hashBlockSize,
        groups: rules.groups.length,
        groupSpanTokens: rules.groups.map(({ spanTokens }) => spanTokens),
        blockCount: topology.blockCount,
      },
    });
    const { tables } = this.world;
    const { hashes } = tables;
    for (let page = HASH_PAGE; page < hashes.pages; page++)
      hashes.words[page * hashes.pageWords] = page + 1 < hashes.pages ? page + 1 : layout.NONE;
    const ring = createEventRing(EVENT_WORDS);
    this.events = new KvEventWriter(ring, tables, rules.hashBlockSize);
    this.#eventSource = new KvEventSource({
      rings: [ring],
      digestBytes,
      integerHashes: true,
      groups: [],
    });
    this.#tokenPages = new PageAllocator(tables.tokens);
    this.workers = [{ keySpaceId: 0, ...plan }];
    this.context = this.world.context(1, this.channel);
  }

  /** Runs one job against the file's answers; what it asked, as the file writes it. */
  run(actor: Actor, job: BenchJob, calls: readonly FileCall[]): unknown[] {
    const { world, channel } = this;
    const { kind, hashes, rows, from, to } = job;
    const request = { slot: job.slot ?? 0, generation: job.generation ?? 1 };
    const given = { job: job.job, kind, ...request, hashPage: HASH_PAGE };
    if (this.rules.uniform)
      world.writeJob({ ...given, first: from, blocks: rows.map((row) => row.slice(from, to)) });
    else
      world.writeJob({
        ...given,
        blocks: rows,
        planned: { ...job.planned, hashes: hashes.length },
      });
    hashes
      .slice(0, this.rules.uniform ? to : hashes.length)
      .forEach((hash, index) => this.#writeDigest(index, hash));
    this.#own(request.slot, request.generation, job.tokens ?? []);
    this.figures.clear();
    channel.asked.length = 0;
    channel.script.length = 0;
    channel.script.push(...calls.map((call) => call.answer ?? null));
    const message = kind === layout.JOB_KIND_SAVE ? "save" : "load";
    world.sent.length = 0;
    world.inbox.push({ kind: message, job: job.job, ticket: 0, worker: 0 });
    // Each step sees what the channel answered to the one before.
    for (let turn = 0; turn < 20 && world.sent.length === 0; turn++)
      world.step(actor, this.context);
    this.#clear(job.job);
    return channel.asked.map(({ operation, entries }) => this.#call(operation, entries));
  }

  /** What the actor has told since the last call. */
  takeEvents(): KvEvent[] {
    return this.#eventSource.take();
  }

  #clear(job: number): void {
    const { jobs, dimensions } = this.world.tables;
    const at = this.world.tables.job(job);
    jobs[at + layout.JOB_LIVE_WORD] = 0;
    const rows = jobs.subarray(at + layout.JOB_BLOCK_PAGE).subarray(0, dimensions.groups);
    for (const page of [...rows, jobs[at + layout.JOB_BOUNDARY_PAGE] ?? layout.NONE])
      if (page !== layout.NONE) this.world.rowPages.free(page);
  }

  /** The request in the slot, as its owner's tables tell of it. */
  #own(slot: number, generation: number, given: readonly number[]): void {
    const { tokens, requests } = this.world.tables;
    const page = this.#tokenPageOfSlot.get(slot) ?? this.#tokenPages.allocate(given.length);
    this.#tokenPageOfSlot.set(slot, page);
    given.forEach((token, index) => tokens.set(page, index, token));
    const record = this.world.tables.request(slot);
    requests[record + layout.REQUEST_GENERATION] = generation;
    requests[record + layout.REQUEST_TOKEN_PAGE] = page;
    requests[record + layout.REQUEST_HASH_PAGE] = HASH_PAGE;
  }

  #call(operation: number, entries: Int32Array): unknown {
    const op = OPERATIONS.get(operation);
    const keys: string[] = [];
    const addrs: [number, number][][] = [];
    const sizes: number[][] = [];
    const groups: string[] = [];
    const { hashes } = this.world.tables;
    const prefixes = this.workers[0]?.prefixes ?? [];
    for (let at = 0; at < entries.length; at += layout.ENTRY_WORDS) {
      const space = { prefixes, hashBytes: this.#digestBytes, hashes, groups: [] };
      const [value = 0, prefix = 0, block = 0, row = 0] = entries.subarray(at);
      const key = keyText(space, prefix, row) ?? "";
      keys.push(key);
      groups.push(lifecycleGroup(key));
      const segments = this.#values[value] ?? [];
      addrs.push(segments.map((each) => [each.storage, each.offset + block * each.strideBytes]));
      sizes.push(segments.map(({ bytes }) => bytes));
    }
    if (op === "is_exist") return { op, keys };
    const told = op === "put" && this.#namesGroups ? { group_ids: groups } : {};
    return { op, keys, addrs, sizes, ...told };
  }

  #writeDigest(index: number, hex: string): void {
    const { words } = this.world.tables.hashes;
    const at = words.byteOffset + this.world.tables.hashes.offset(HASH_PAGE, index) * 4;
    new Uint8Array(words.buffer, at, this.#digestBytes).set(Buffer.from(hex, "hex"));
  }
}

/** Runs `replay` over the trace, and once more, counted, with jobs as plans where they would not be planned. */
export function replayPlans(
  trace: BenchTrace,
  hashes: readonly string[],
  check: CaseCheck,
  replay: (bench: ActorBench) => void,
): void {
  const digestBytes = (hashes[0]?.length ?? 64) / 2;
  const bench = new ActorBench(trace, false, digestBytes);
  replay(bench);
  if (!bench.rules.uniform) return;
  replay(new ActorBench(trace, true, digestBytes));
  check.ranAsPlans();
}

/** As the trace's configuration, parsed by the connector's own rule, says. */
function groupsNamed(config: VectorConfig): boolean {
  const settings = {
    kv_connector: "MooncakeStoreConnector",
    kv_role: "kv_both",
    kv_connector_extra_config: { ...config.extra_config, engine: "local" },
  };
  return parseTransferConfig(settings, readEnvironment({})).config.enableGroupSemantics;
}
