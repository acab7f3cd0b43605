/** One rank's saves against a scripted pool: dedup, striping, shards, boundary states, pressure, retries, events, figures. */
import {
  eventHash,
  EVENT_MEDIUM,
  storedEvents,
} from "../../../../src/connector/worker/stored-events.ts";
import type { BlockStoredEvent } from "../../../../src/connector/worker/stored-events.ts";
import { saveJob } from "../../../../src/connector/worker/save-job.ts";
import { SaveLedger } from "../../../../src/connector/worker/save-ledger.ts";
import type { VectorConfig, VectorRank } from "../../vectors.ts";
import { Cases } from "../cases.ts";
import type { CaseCheck, VectorKind } from "../cases.ts";
import { askedOf, WorkerBench } from "../worker-bench.ts";
import type { FileCall, FileStats } from "../worker-bench.ts";

interface SavedRequest {
  readonly num_tokens: number;
  readonly hashes: readonly string[];
  readonly block_ids: readonly (readonly number[])[];
}
interface SaveAction {
  readonly action: "save";
  readonly req_id: string;
  readonly store_job_id: number;
  readonly token_len_chunk: number;
  readonly prefill_end_tokens?: number | null;
  readonly token_ids_start: number;
  readonly token_ids: readonly number[] | null;
  readonly boundary_puts: readonly (readonly [number, number, number])[] | null;
  readonly store_calls: readonly FileCall[];
  readonly raised: string | null;
  readonly saved_offset: Readonly<Record<string, number>>;
  readonly pressure: boolean;
  readonly skipped: readonly string[];
  readonly completed_saves: Readonly<Record<string, number>>;
  readonly events: readonly unknown[];
  readonly stats: FileStats;
}
interface SaveTrace {
  readonly config: VectorConfig;
  readonly rank: VectorRank;
  readonly requests: Readonly<Record<string, SavedRequest>>;
  readonly jobs: readonly (
    | SaveAction
    | { readonly action: "delete_finished"; readonly req_id: string }
  )[];
}

export const workerSaves: VectorKind = {
  name: "worker_saves",
  run(contents) {
    const report = new Cases();
    (contents as { traces: SaveTrace[] }).traces.forEach((trace, index) =>
      report.run(`trace ${index} ${JSON.stringify([trace.config, trace.rank])}`, (check) => {
        const bench = new WorkerBench(trace.config, trace.rank);
        const ledger = new SaveLedger();
        trace.jobs.forEach((job, number) => {
          if (job.action === "save") save(trace, bench, ledger, job, number, check);
          else if (job.action === "delete_finished") ledger.forget(job.req_id);
          else throw new Error(`job ${number} has an unknown action`);
        });
      }),
    );
    return report;
  },
};

function save(
  trace: SaveTrace,
  bench: WorkerBench,
  ledger: SaveLedger,
  job: SaveAction,
  number: number,
  check: CaseCheck,
): void {
  const request = trace.requests[job.req_id];
  if (request === undefined) throw new Error(`job ${number} names no known request`);
  const events = trace.config.kv_events === true;
  const { rules, groups, shardsOfGroup } = bench;
  const identity = { request: job.req_id, job: job.store_job_id };
  ledger.queued(identity);
  const steps = saveJob({ rules, turns: groups, shardsOfGroup, events }, ledger, {
    ...identity,
    tokens: job.token_len_chunk,
    promptTokens: job.prefill_end_tokens ?? null,
    hashes: request.hashes.length,
    blocks: request.block_ids,
    boundaryPuts: (job.boundary_puts ?? []).map(([group, block, tokens]) => ({
      group,
      block,
      tokens,
    })),
    eventTokens:
      job.token_ids === null ? null : { start: job.token_ids_start, tokens: job.token_ids },
  });
  const { end, calls, stats } = bench.run(steps, request.hashes, job.store_calls);
  const of = `of job ${number}`;
  check.equal(`calls ${of}`, calls, askedOf(job.store_calls));
  check.equal(`figures ${of}`, stats, job.stats);
  check.equal(`saved tokens ${of}`, Object.fromEntries(ledger.saved), job.saved_offset);
  check.equal(`pressure ${of}`, ledger.pressure, job.pressure);
  check.equal(`passed over ${of}`, [...ledger.passedOver].sort(), job.skipped);
  const completed = Object.fromEntries(ledger.takeCompleted().map((done) => [done, 1]));
  check.equal(`completed ${of}`, completed, job.completed_saves);
  // vLLM lets a failed existence check escape from the job; ours ends it as failed.
  if (job.raised !== null) check.equal(`end ${of}`, end.kind, "failed");
  const ours = events ? storedEvents(rules, end) : [];
  check.equal(
    `events ${of}`,
    ours.map((event) => eventOf(event, request.hashes)),
    job.events,
  );
}

function eventOf(event: BlockStoredEvent, hashes: readonly string[]): unknown {
  const published = (hash: number): string =>
    String(eventHash(Uint8Array.from(Buffer.from(hashes[hash] ?? "", "hex"))));
  return {
    block_hashes: [published(event.hash)],
    parent_block_hash: event.parentHash === null ? null : published(event.parentHash),
    token_ids: event.tokens,
    block_size: event.blockSize,
    lora_id: null,
    medium: EVENT_MEDIUM,
    lora_name: null,
    group_idx: event.group,
  };
}
