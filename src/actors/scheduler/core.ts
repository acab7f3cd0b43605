import { recordStale } from "../mailbox/stale.ts";
import type { Message } from "../messages.ts";
import { loadBlocksMax } from "../../blocks/capacities.ts";
import { REQUEST_STATUS } from "../../blocks/layout.ts";
import { PageAllocator } from "../../blocks/page-arena.ts";
import type { Tables } from "../../blocks/tables.ts";
import type { LoadFailurePolicy } from "../../config/connector-config.ts";
import { jobChains } from "../../connector/jobs.ts";
import { MooncakeKvError } from "../../errors.ts";
import type { CounterBlock } from "../../trace/counters.ts";
import type { ActorContext } from "../step.ts";
import { BlockAllocator } from "./block-allocator.ts";
import { BlockRows } from "./block-rows.ts";
import type { LocalCacheEvents } from "./local-cache-events.ts";
import type { ConnectorPort } from "./ports.ts";
import { RequestStates, statusWord } from "./request-states.ts";
import { createSchedulerCounters } from "./scheduler-counters.ts";
import { StepState } from "./step-state.ts";

/** Blocks and block pages of one scheduler incarnation: made first, because the connector's scheduler side needs both. */
export interface SchedulerMemory {
  readonly allocator: BlockAllocator;
  readonly pages: PageAllocator;
  readonly events: LocalCacheEvents | null;
}
/** Rows of jobs that a dead scheduler left behind keep their pages. */
export function createSchedulerMemory(
  tables: Tables,
  events: LocalCacheEvents | null = null,
): SchedulerMemory {
  const pages = new PageAllocator(tables.blocks);
  pages.adopt(jobChains(tables));
  return { allocator: new BlockAllocator(tables.dimensions.blockCount, events), pages, events };
}

export interface SchedulerOptions {
  readonly tables: Tables;
  readonly memory: SchedulerMemory;
  /** null: no pool, the local prefix cache alone. */
  readonly connector: ConnectorPort | null;
  /** Tokens ids that end an answer. */
  readonly endTokenIds: readonly number[];
  /** Tokens computed in one scheduling step, prefill chunks and decodes together. Default 512. */
  readonly tokensPerStepMax?: number;
  /** Sequences that run at a time. Default, and most: dimensions.stepSequencesMax. */
  readonly sequencesMax?: number;
  /** lookup_async: lookups are submitted as soon as the hashes are there; else when the request's turn comes. Default true. */
  readonly lookupAsync?: boolean;
  /** load_async: false holds the next step until its loads are done. Default true. */
  readonly loadAsync?: boolean;
  /** Default recompute. */
  readonly loadFailurePolicy?: LoadFailurePolicy;
  /** How long a request waits for its prompt's hashes before it goes on without reuse. Default 1000. */
  readonly hashTimeoutMs?: number;
  /** Tries of one scheduling step before its requests end with FINISH_ERROR. Default 10. */
  readonly stepTriesMax?: number;
  /** The lookup actor was given up before this scheduler started. Default false. */
  readonly lookupGone?: boolean;
  /** Shared counters for metrics; absent: none. */
  readonly counterBlock?: CounterBlock;
}

/** Blocked requests that one scan may look past, and how often one request may be overtaken. */
export const PASS_OVER_MAX = 4;
export const OVERTAKEN_MAX = 64;
/** Room in the front end's mailbox that tokens leave to others: answers to tickets, and the supervisor's news of restarts. */
export const FRONT_END_RESERVE = 24;
/** How long to wait when the front end's mailbox is full: it does not tell when it has read. */
export const ROOM_RETRY_MS = 2;

/** Everything that the scheduler's parts share. One thread; `context` is that of the step that runs. */
export class SchedulerCore {
  readonly tables: Tables;
  readonly options: Required<Omit<SchedulerOptions, "counterBlock">>;
  readonly connector: ConnectorPort | null;
  readonly states: RequestStates;
  readonly allocator: BlockAllocator;
  readonly rows: BlockRows;
  readonly step: StepState;
  readonly counters = createSchedulerCounters();
  readonly endTokens: ReadonlySet<number>;
  readonly blockSize: number;
  readonly groups: number;
  readonly loadBlocksMax: number;
  /** Block ids that admitted requests will still need for the tokens they have: the sum of states.promisedBlocks. */
  promisedBlocks = 0;
  /** Block ids that loads in flight fill. */
  loadingBlocks = 0;
  /** Synchronous loads in flight: no step starts before they are done. */
  syncLoads = 0;
  /** The model asked in vain for room for its tokens: look again soon, because the front end does not tell. */
  roomAtMs = Infinity;
  /** The connector made an offer or has a load to write down: its step must be closed by buildMetadata. */
  metadataOpen = false;
  stopping = false;
  /** The lookup actor was given up: nobody hashes prompts. */
  lookupGone = false;
  /** A predecessor died, and the model has not answered the fence yet: see recovery.ts. */
  recovering = false;
  /** Something changed since the last admission: a request became ready, blocks came back. */
  admissionDue = false;
  context: ActorContext;

  constructor(options: SchedulerOptions, context: ActorContext) {
    const { tables, memory } = options;
    this.context = context;
    this.tables = tables;
    this.connector = options.connector;
    this.options = withDefaults(options);
    this.lookupGone = this.options.lookupGone;
    this.states = new RequestStates(tables.dimensions.requestSlots);
    this.allocator = memory.allocator;
    this.rows = new BlockRows(tables, this.states, memory.allocator, memory.pages, memory.events);
    this.step = new StepState(tables);
    this.endTokens = new Set(options.endTokenIds);
    this.blockSize = tables.dimensions.blockSize;
    this.groups = tables.dimensions.groups;
    this.loadBlocksMax = loadBlocksMax(tables.dimensions.blockCount);
  }

  blocksFor(tokens: number): number {
    return Math.ceil(tokens / this.blockSize);
  }

  /** What admission asks for: blocks of all known tokens and one more, but never more than the request can use. */
  targetBlocks(slot: number): number {
    const { states } = this;
    const most = this.blocksFor(states.tokensMax[slot]!);
    return Math.min(this.blocksFor(states.knownTokens(slot)) + 1, most);
  }

  /** Changes the state, for this scheduler and for a successor. */
  setState(slot: number, state: number): void {
    this.states.state[slot] = state;
    this.states.sinceMs[slot] = this.context.nowMs();
    const record = this.tables.request(slot);
    this.tables.requests[record + REQUEST_STATUS] = statusWord(
      this.states.generation[slot]!,
      state,
    );
  }

  /** Sets what the request is promised beyond the blocks it holds. */
  promise(slot: number, blockIds: number): void {
    const wanted = Math.max(0, blockIds);
    this.promisedBlocks += wanted - this.states.promisedBlocks[slot]!;
    this.states.promisedBlocks[slot] = wanted;
  }

  trace(
    event: Parameters<ActorContext["trace"]["record"]>[0],
    slot: number,
    first: number,
    second: number,
  ): void {
    this.context.trace.record(event, slot, this.states.generation[slot]!, first, second);
  }

  /** `recorded`: the connector has traced and logged it. */
  stale(message: Message, recorded = false): void {
    this.counters.staleMessages++;
    if (!recorded) recordStale(this.context, message);
  }
}

function withDefaults(options: SchedulerOptions): Required<Omit<SchedulerOptions, "counterBlock">> {
  const { stepSequencesMax, blockSize, hashBlockSize } = options.tables.dimensions;
  const filled = {
    tables: options.tables,
    memory: options.memory,
    connector: options.connector,
    endTokenIds: options.endTokenIds,
    tokensPerStepMax: options.tokensPerStepMax ?? 512,
    sequencesMax: options.sequencesMax ?? stepSequencesMax,
    lookupAsync: options.lookupAsync ?? true,
    loadAsync: options.loadAsync ?? true,
    loadFailurePolicy: options.loadFailurePolicy ?? "recompute",
    hashTimeoutMs: options.hashTimeoutMs ?? 1000,
    stepTriesMax: options.stepTriesMax ?? 10,
    lookupGone: options.lookupGone ?? false,
  };
  atLeastOne("tokensPerStepMax", filled.tokensPerStepMax);
  atLeastOne("sequencesMax", filled.sequencesMax);
  atLeastOne("stepTriesMax", filled.stepTriesMax);
  if (filled.sequencesMax > stepSequencesMax)
    throw invalid(
      "sequencesMax",
      filled.sequencesMax,
      `must be at most ${stepSequencesMax}, the sequences of a step buffer`,
    );
  if (blockSize % hashBlockSize !== 0)
    throw invalid(
      "blockSize",
      blockSize,
      `must be a multiple of the hash block size ${hashBlockSize}`,
    );
  return filled;
}

function atLeastOne(field: string, value: number): void {
  if (!Number.isInteger(value) || value < 1)
    throw invalid(field, value, "must be a whole number above 0");
}

function invalid(field: string, value: number, problem: string): MooncakeKvError {
  const remedy = "Correct the scheduler's settings.";
  return new MooncakeKvError({ code: "INVALID_VALUE", field, value, problem, remedy });
}
