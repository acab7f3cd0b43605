/** The rule of one rank's loads against a trace: the rank's rules, and requests and answers as the traces write them. */
import {
  ENTRY_BLOCK,
  ENTRY_GROUP,
  ENTRY_HASH_ROW,
  ENTRY_PREFIX,
  ENTRY_WORDS,
} from "../../../src/blocks/layout.ts";
import type {
  StoreAnswer,
  StoreJob,
  StoreRequest,
} from "../../../src/connector/worker/store-requests.ts";
import { blockSegments } from "../../../src/keys/kv-tensors.ts";
import { lifecycleGroup, poolKey, poolKeyPrefixes } from "../../../src/keys/pool-keys.ts";
import type { GroupKeyPrefixes } from "../../../src/keys/pool-keys.ts";
import { valueBytes } from "../../../src/keys/segments.ts";
import type { StorageSegment } from "../../../src/keys/segments.ts";
import { selectStoreShape } from "../../../src/keys/store-shape.ts";
import { hitRulesOf, namespaceOf, topologyOf } from "../vectors.ts";
import type { VectorConfig, VectorRank } from "../vectors.ts";

export interface FileCall {
  readonly op: "is_exist" | "put" | "get";
  readonly keys: readonly string[];
  readonly addrs?: readonly (readonly (readonly [number, number])[])[];
  readonly sizes?: readonly (readonly number[])[];
  readonly group_ids?: readonly string[];
  readonly answer?: readonly number[];
  readonly raises?: string;
}
type OurCall = Omit<FileCall, "answer" | "raises">;
export type FileStats = Readonly<Record<string, readonly FileStat[]>>;
interface FileStat {
  readonly num_keys: number;
  readonly num_bytes: number;
  readonly status: string;
  readonly num_failed_keys: number;
}

const FILE_OPERATIONS = { exists: "is_exist", put: "put", get: "get" } as const;

export class WorkerBench {
  readonly rules;
  readonly groups: readonly GroupKeyPrefixes[];
  readonly segments: readonly (readonly (readonly StorageSegment[])[])[];
  readonly tpRank: number;
  readonly shardsOfGroup: readonly number[];
  readonly bytesOfGroup: readonly number[];
  readonly #lifecycles: boolean;

  constructor(config: VectorConfig, rank: VectorRank) {
    const topology = topologyOf(config, rank);
    const namespace = namespaceOf(config);
    const shape = selectStoreShape(topology, namespace.storeTp ?? null);
    this.rules = hitRulesOf(config);
    this.tpRank = rank.tp;
    this.groups = poolKeyPrefixes(topology, namespace).groups;
    this.segments = blockSegments(topology, shape.tpSize);
    this.shardsOfGroup = this.segments.map((values) => values.length);
    this.bytesOfGroup = this.segments.map((values) => valueBytes(values[0] ?? []));
    this.#lifecycles = config.extra_config?.["enable_group_semantics"] === true;
  }

  /** Runs the job against the file's answers. `calls`: what it asked, as the file writes it; asking more than the file fails. */
  run<End>(
    job: StoreJob<End>,
    hashes: readonly string[],
    answers: readonly FileCall[],
  ): { end: End; calls: OurCall[] } {
    const calls: OurCall[] = [];
    let step = job.next();
    while (step.done !== true) {
      const call = this.#call(step.value, hashes);
      const scripted = answers[calls.length];
      calls.push(call);
      if (scripted === undefined) throw new Error(`asked once more: ${JSON.stringify(call)}`);
      const answer: StoreAnswer = scripted.answer ?? null;
      step = job.next(answer);
    }
    return { end: step.value, calls };
  }

  #call({ operation, entries }: StoreRequest, hashes: readonly string[]): OurCall {
    const keys: string[] = [];
    const addrs: [number, number][][] = [];
    const sizes: number[][] = [];
    const lifecycles: string[] = [];
    for (let at = 0; at < entries.length; at += ENTRY_WORDS) {
      const group = entries[at + ENTRY_GROUP] ?? 0;
      const shard = entries[at + ENTRY_PREFIX] ?? 0;
      const block = entries[at + ENTRY_BLOCK] ?? 0;
      const hash = hashes[entries[at + ENTRY_HASH_ROW] ?? 0] ?? "";
      const prefix = this.groups[group]?.own[shard] ?? "";
      const value = this.segments[group]?.[shard] ?? [];
      const key = poolKey(prefix, hash);
      keys.push(key);
      addrs.push(value.map((each) => [each.storage, each.offset + block * each.strideBytes]));
      sizes.push(value.map(({ bytes }) => bytes));
      lifecycles.push(lifecycleGroup(key));
    }
    const op = FILE_OPERATIONS[operation];
    if (op === "is_exist") return { op, keys };
    const told = op === "put" && this.#lifecycles ? { group_ids: lifecycles } : {};
    return { op, keys, addrs, sizes, ...told };
  }
}

/** The file's calls without what the store answered. */
export function askedOf(calls: readonly FileCall[]): OurCall[] {
  return calls.map(({ answer: _answer, raises: _raises, ...asked }) => asked);
}
