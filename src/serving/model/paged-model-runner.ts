import type { InferenceSession, Tensor } from "onnxruntime-node";
import { MooncakeKvError, brokenInvariant } from "../../errors.ts";
import { KvRows } from "./kv-rows.ts";
import { rowElements, rowsPerBlock } from "./llama-config.ts";
import type { LlamaConfig } from "./llama-config.ts";
import { loadOnnxRuntime } from "./optional-packages.ts";
import type { PreparedModel } from "./prepared-model.ts";
import { checkStepBatch } from "./step-batch.ts";
import type { StepBatch, StepLimits } from "./step-batch.ts";
import { StepGroups } from "./step-groups.ts";
import { StepInputs } from "./step-inputs.ts";

export interface PagedModelRunnerOptions {
  /**
   * The whole KV pool, `blockCount` blocks of `prepared.blockBytes`, over an ArrayBuffer (an external one over shared memory
   * too; the runtime refuses a SharedArrayBuffer). It is read in place and must stay mapped until `close` has resolved.
   */
  readonly kvPool: Float32Array;
  readonly blockCount: number;
  /** Threads of one run; they sleep, never spin, between operators. */
  readonly threads: number;
}

/** Most bytes of keys or values that one run gathers per layer. */
const GATHERED_BYTES_MAX = 64 * 1024 * 1024;

type TensorConstructor = typeof import("onnxruntime-node").Tensor;

/**
 * Runs a paged Llama model over a KV pool, one scheduling step at a time.
 *
 * Belongs to one thread, which a run blocks: give it a worker of its own. Logits and pool contents are equal bit for bit
 * however a prompt is cut into chunks, batched or taken from cached blocks, on one kind of processor.
 */
export class PagedModelRunner {
  readonly config: LlamaConfig;
  readonly blockSize: number;
  /** Runs of the graph so far; a step takes one or more. */
  runCount = 0;
  private readonly session: InferenceSession;
  private readonly limits: StepLimits;
  private readonly rows: KvRows;
  private readonly groups: StepGroups;
  private readonly inputs: StepInputs;
  private readonly feeds: Record<string, Tensor>;
  private readonly newRowNames: readonly string[];
  private inFlight = false;

  private constructor(
    session: InferenceSession,
    tensorConstructor: TensorConstructor,
    prepared: PreparedModel,
    options: PagedModelRunnerOptions,
  ) {
    const { config, blockSize } = prepared;
    this.session = session;
    this.config = config;
    this.blockSize = blockSize;
    this.limits = {
      blockSize,
      blockCount: options.blockCount,
      vocabularySize: config.vocabularySize,
      contextTokensMax: config.contextTokensMax,
    };
    this.rows = new KvRows(options.kvPool, config, blockSize);
    const gatheredBytesPerBlock = config.kvHeadCount * rowElements(config, blockSize) * 4;
    this.groups = new StepGroups(
      blockSize,
      Math.max(1, Math.floor(GATHERED_BYTES_MAX / gatheredBytesPerBlock)),
    );
    this.inputs = new StepInputs(
      tensorConstructor,
      config.queryHeadCount === config.kvHeadCount ? 2 : 1,
    );
    const poolShape = [options.blockCount * rowsPerBlock(config), rowElements(config, blockSize)];
    this.feeds = { kv_pool: new tensorConstructor("float32", options.kvPool, poolShape) };
    this.newRowNames = Array.from({ length: config.layerCount * 2 }, (_, index) =>
      index % 2 === 0 ? `new.${index >> 1}.key` : `new.${index >> 1}.value`,
    );
  }

  /** Loads the graph. Throws OPTIONAL_MISSING, INVALID_VALUE (pool), MODEL_INVALID (the runtime refuses the graph). */
  static async load(
    prepared: PreparedModel,
    options: PagedModelRunnerOptions,
  ): Promise<PagedModelRunner> {
    checkPool(prepared, options);
    const runtime = await loadOnnxRuntime();
    const sessionOptions: InferenceSession.SessionOptions = {
      intraOpNumThreads: options.threads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      graphOptimizationLevel: "all",
      logSeverityLevel: 3,
      // Threads that spin while they wait take the cores away from the other actors, and on busy cores from each other.
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    };
    try {
      const session =
        prepared.graph.kind === "bytes"
          ? await runtime.InferenceSession.create(prepared.graph.bytes, sessionOptions)
          : await runtime.InferenceSession.create(prepared.graph.path, sessionOptions);
      return new PagedModelRunner(session, runtime.Tensor, prepared, options);
    } catch (error) {
      throw new MooncakeKvError({
        code: "MODEL_INVALID",
        field: prepared.graph.kind === "bytes" ? prepared.modelName : prepared.graph.path,
        problem: "onnxruntime-node could not load the model's graph",
        remedy:
          "Delete the model's folder in the cache and start again, and see that there is enough memory.",
        cause: error,
      });
    }
  }

  /**
   * Computes one step: reads earlier positions from the pool, writes the new keys and values into it, and fills
   * `batch.logits`. One call at a time. Throws INVALID_VALUE for a batch that does not fit; nothing is written then.
   */
  async runStep(batch: StepBatch): Promise<void> {
    if (this.inFlight) brokenInvariant("PagedModelRunner.runStep: a step is already in flight");
    checkStepBatch(batch, this.limits);
    this.inFlight = true;
    try {
      this.groups.plan(batch);
      let first = 0;
      for (let group = 0; group < this.groups.groupCount; group++) {
        const end = this.groups.groupEnds[group]!;
        await this.runGroup(batch, first, end);
        first = end;
      }
    } finally {
      this.inFlight = false;
    }
  }

  /** Frees the graph and its weights; the pool is the caller's again. */
  async close(): Promise<void> {
    await this.session.release();
  }

  private async runGroup(batch: StepBatch, first: number, end: number): Promise<void> {
    const { order } = this.groups;
    for (let at = first; at < end; at++) this.rows.clearTail(batch, order[at]!);
    const tokensPerMember = this.inputs.fill(this.feeds, batch, this.groups, first, end);
    const outputs = await this.session.run(this.feeds);
    this.runCount++;
    for (let layerKind = 0; layerKind < this.newRowNames.length; layerKind++) {
      const rows = floatsOf(outputs, this.newRowNames[layerKind]!);
      for (let at = first; at < end; at++) {
        this.rows.scatter(batch, order[at]!, rows, at - first, tokensPerMember, layerKind);
      }
    }
    const logits = floatsOf(outputs, "logits");
    const vocabulary = this.config.vocabularySize;
    for (let at = first; at < end; at++) {
      const row = (at - first) * vocabulary;
      batch.logits.set(logits.subarray(row, row + vocabulary), order[at]! * vocabulary);
    }
  }
}

function floatsOf(outputs: InferenceSession.OnnxValueMapType, name: string): Float32Array {
  const data = outputs[name]?.data;
  return data instanceof Float32Array
    ? data
    : brokenInvariant(`output ${name} of the model's graph is missing`);
}

function checkPool(prepared: PreparedModel, options: PagedModelRunnerOptions): void {
  const refuse = (value: unknown, problem: string, remedy: string): never => {
    throw new MooncakeKvError({ code: "INVALID_VALUE", field: "kvPool", value, problem, remedy });
  };
  if (options.kvPool.buffer instanceof SharedArrayBuffer) {
    refuse(
      "SharedArrayBuffer",
      "onnxruntime-node cannot read it",
      "Pass a view of an external ArrayBuffer over the region.",
    );
  }
  const bytes = options.blockCount * prepared.blockBytes;
  if (options.kvPool.byteLength !== bytes) {
    refuse(
      options.kvPool.byteLength,
      `it must have ${bytes} bytes`,
      "Size the pool as blockCount * blockBytes.",
    );
  }
}
