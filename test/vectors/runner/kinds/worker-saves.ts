/**
 * One rank's saves, through the real saver on real tables, against a scripted pool: dedup, striping, shards, boundary states,
 * pressure, retries, events, figures. Traces that follow chunk numbers are run as plans too.
 */
import { OUTCOME_HIT } from "../../../../src/actors/messages.ts";
import { SaverActor } from "../../../../src/actors/saver/saver-actor.ts";
import { JOB_KIND_SAVE } from "../../../../src/blocks/layout.ts";
import type { KvEvent } from "../../../../src/events/kv-events.ts";
import { replayPlans } from "../../actor-bench.ts";
import type { ActorBench, BenchTrace } from "../../actor-bench.ts";
import { figuresOf } from "../../figures.ts";
import { Cases } from "../cases.ts";
import type { CaseCheck, VectorKind } from "../cases.ts";
import { askedOf } from "../worker-bench.ts";
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
type SaveStep = SaveAction | { readonly action: "delete_finished"; readonly req_id: string };
interface SaveTrace extends BenchTrace {
  readonly requests: Readonly<Record<string, SavedRequest>>;
  readonly jobs: readonly SaveStep[];
}

/** Job slots of the tables. */
const JOB_SLOTS = 16;

export const workerSaves: VectorKind = {
  name: "worker_saves",
  run(contents) {
    const report = new Cases();
    (contents as { traces: SaveTrace[] }).traces.forEach((trace, index) =>
      report.run(`trace ${index} ${JSON.stringify([trace.config, trace.rank])}`, (check) =>
        replayPlans(trace, Object.values(trace.requests)[0]?.hashes ?? [], check, (bench) => {
          const replay = new SaveReplay(trace, bench, check);
          trace.jobs.forEach((job, number) => replay.step(job, number));
        }),
      ),
    );
    return report;
  },
};

class SaveReplay {
  readonly #trace: SaveTrace;
  readonly #bench: ActorBench;
  readonly #check: CaseCheck;
  readonly #saver: SaverActor;
  readonly #slots: ReadonlyMap<string, number>;
  /** A request that comes back after its end is another one in its slot. */
  readonly #generations = new Map<string, number>();

  constructor(trace: SaveTrace, bench: ActorBench, check: CaseCheck) {
    const { workers, rules, figures: metrics, events, world } = bench;
    const told = trace.config.kv_events === true ? { events } : {};
    this.#trace = trace;
    this.#bench = bench;
    this.#check = check;
    this.#saver = new SaverActor({ tables: world.tables, workers, rules, metrics, ...told });
    this.#slots = new Map(Object.keys(trace.requests).map((request, slot) => [request, slot]));
  }

  step(job: SaveStep, number: number): void {
    if (job.action === "save") this.#save(job, number);
    else if (job.action === "delete_finished")
      this.#generations.set(job.req_id, this.#generation(job.req_id) + 1);
    else throw new Error(`job ${number} has an unknown action`);
  }

  #save(job: SaveAction, number: number): void {
    const request = this.#trace.requests[job.req_id];
    if (request === undefined) throw new Error(`job ${number} names no known request`);
    const bench = this.#bench;
    const { pressure } = this.#saver;
    const started = job.store_job_id % JOB_SLOTS;
    const calls = bench.run(
      this.#saver,
      {
        job: started,
        kind: JOB_KIND_SAVE,
        slot: this.#slots.get(job.req_id) ?? 0,
        generation: this.#generation(job.req_id),
        rows: request.block_ids,
        hashes: request.hashes,
        tokens: this.#tokens(job.req_id),
        from: 0,
        to: Math.floor(job.token_len_chunk / bench.rules.blockTokens),
        planned: {
          tokens: job.token_len_chunk,
          promptTokens: job.prefill_end_tokens ?? null,
          boundaryPuts: job.boundary_puts ?? [],
        },
      },
      job.store_calls,
    );
    const of = `of job ${number}${bench.rules.uniform ? "" : ", planned"}`;
    const compare = (what: string, ours: unknown, wanted: unknown): void =>
      this.#check.equal(`${what} ${of}`, ours, wanted);
    compare("calls", calls, askedOf(job.store_calls));
    compare("figures", bench.figures.noted, figuresOf(job.stats));
    compare("saved tokens", this.#savedTokens(), job.saved_offset);
    compare("pressure", pressure.active, job.pressure);
    const passedOver = [...this.#slots].flatMap(([name, slot]) =>
      pressure.skips(slot, this.#generation(name)) ? [name] : [],
    );
    compare("passed over", passedOver.sort(), job.skipped);
    const ends = bench.world.sent.flatMap((sent) => (sent.kind === "saveDone" ? [sent] : []));
    compare(
      "job that ended",
      ends.map((end) => end.job),
      [started],
    );
    const completed = Object.fromEntries(ends.map(() => [job.store_job_id, ends.length]));
    compare("completed", completed, job.completed_saves);
    // vLLM lets a failed existence check escape from the job; ours ends it as failed.
    if (job.raised !== null) compare("failed", ends[0]?.outcome !== OUTCOME_HIT, true);
    compare("events", bench.takeEvents().map(eventOf), job.events);
  }

  #generation(request: string): number {
    return this.#generations.get(request) ?? 1;
  }

  /** All tokens of the request that the trace tells of: events of ours read them from the request's own row. */
  #tokens(request: string): number[] {
    const tokens: number[] = [];
    for (const job of this.#trace.jobs)
      if (job.action === "save" && job.req_id === request)
        job.token_ids?.forEach((token, index) => (tokens[job.token_ids_start + index] = token));
    return Array.from(tokens, (token) => token ?? 0);
  }

  #savedTokens(): Record<string, number> {
    const { rules } = this.#bench;
    const saved = [...this.#slots].map(([request, slot]): [string, number] => {
      const mark = this.#saver.marks.end(slot, this.#generation(request), 0);
      return [request, rules.uniform ? mark * rules.blockTokens : mark];
    });
    return Object.fromEntries(saved.filter(([, tokens]) => tokens > 0));
  }
}

function eventOf(event: KvEvent): unknown {
  if (event.type !== "BlockStored") return event;
  const { blockHashes, parentBlockHash, groupIndex } = event;
  return {
    block_hashes: blockHashes.map(String),
    parent_block_hash: parentBlockHash === null ? null : String(parentBlockHash),
    token_ids: event.tokenIds,
    block_size: event.blockSize,
    lora_id: event.loraId,
    medium: event.medium,
    lora_name: event.loraName,
    group_idx: groupIndex,
  };
}
