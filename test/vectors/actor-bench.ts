/** The real saver or loader on real tables against a recorded trace: a scripted channel answers, and what it was asked is told. */
import type { Actor, ActorContext } from "../../src/actors/step.ts";
import * as layout from "../../src/blocks/layout.ts";
import { readEnvironment } from "../../src/config/environment.ts";
import { parseTransferConfig } from "../../src/config/transfer-config.ts";
import type { HitRules } from "../../src/keys/coordinator/hit-rules.ts";
import { blockSegments } from "../../src/keys/kv-tensors.ts";
import { lifecycleGroup, poolKeyPrefixes } from "../../src/keys/pool-keys.ts";
import type { StorageSegment } from "../../src/keys/segments.ts";
import { selectStoreShape } from "../../src/keys/store-shape.ts";
import { planKeySpace } from "../../src/store/key-spaces.ts";
import { keyText } from "../../src/store/model-engine.ts";
import { ActorWorld } from "../unit/store-world.ts";
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
const DIGEST_BYTES = 32;

export class ActorBench {
  readonly world: ActorWorld;
  readonly channel = new ScriptedChannel();
  readonly context: ActorContext;
  readonly rules: HitRules;
  readonly workers;
  /** By value number. */
  readonly #values: readonly (readonly StorageSegment[])[];
  /** As the engine is set: puts name the group of each value. */
  readonly #namesGroups: boolean;

  /** `planned`: work jobs off as plans also where chunk numbers would do. */
  constructor({ config, rank }: BenchTrace, planned: boolean) {
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
        blockSize: rules.blockTokens,
        hashBlockSize: rules.hashBlockSize,
        groups: rules.groups.length,
        groupSpanTokens: rules.groups.map(({ spanTokens }) => spanTokens),
        blockCount: 200,
      },
    });
    this.workers = [{ keySpaceId: 0, ...plan }];
    this.context = this.world.context(1, this.channel);
  }

  /** Runs one job against the file's answers; what it asked, as the file writes it. */
  run(actor: Actor, job: BenchJob, calls: readonly FileCall[]): unknown[] {
    const { world, channel } = this;
    const { kind, hashes, rows, from, to } = job;
    const given = { job: job.job, kind, slot: job.slot ?? 0, generation: job.generation ?? 1 };
    const hashPage = this.rules.uniform
      ? world.writeJob({ ...given, first: from, blocks: rows.map((row) => row.slice(from, to)) })
      : world.writeJob({
          ...given,
          blocks: rows,
          planned: { ...job.planned, hashes: hashes.length },
        });
    hashes
      .slice(0, this.rules.uniform ? to : hashes.length)
      .forEach((hash, index) => this.#writeDigest(hashPage, index, hash));
    channel.asked.length = 0;
    channel.script.length = 0;
    channel.script.push(...calls.map((call) => call.answer ?? null));
    const message = kind === layout.JOB_KIND_SAVE ? "save" : "load";
    world.sent.length = 0;
    world.inbox.push({ kind: message, job: job.job, ticket: 0, worker: 0 });
    // Each step sees what the channel answered to the one before.
    for (let turn = 0; turn < 20 && world.sent.length === 0; turn++)
      world.step(actor, this.context);
    world.tables.jobs[world.tables.job(job.job) + layout.JOB_LIVE_WORD] = 0;
    return channel.asked.map(({ operation, entries }) => this.#call(operation, entries));
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
      const space = { prefixes, hashBytes: DIGEST_BYTES, hashes, groups: [] };
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

  #writeDigest(hashPage: number, index: number, hex: string): void {
    const { words } = this.world.tables.hashes;
    const at = words.byteOffset + this.world.tables.hashes.offset(hashPage, index) * 4;
    new Uint8Array(words.buffer, at, DIGEST_BYTES).set(Buffer.from(hex, "hex"));
  }
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
