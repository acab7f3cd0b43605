import { Piscina } from "piscina";
import type { Log } from "../../actors/step.ts";
import { MooncakeKvError } from "../../errors.ts";
import { workerEntry } from "../../worker-entry.ts";
import type { PreparedModel } from "../model/prepared-model.ts";
import type { PromptText, RefusedPrompt } from "./prompt-text.ts";

/** Prompts that wait for a thread; each is at most as long as the context lets it be. */
const QUEUE_MAX = 1024;
/** From hand-over to token ids. A context of 8,192 tokens takes a few milliseconds, so this is a broken or starved thread. */
const TIMEOUT_MS = 20_000;
/** Failures in a row after which no further thread is started. */
const FAILURES_MAX = 3;

/** Null: the thread cannot say. */
type Answer = Int32Array | RefusedPrompt | null;

export interface TokenizerPoolOptions {
  readonly model: PreparedModel;
  readonly log: Log;
  /** Threads, each with a tokenizer of its own. Default 1: it keeps up with two million tokens a second. */
  readonly threads?: number;
  readonly queueMax?: number;
  readonly timeoutMs?: number;
  /** Compiled module of a thread; default tokenizer-worker.js. */
  readonly entry?: URL;
}

/**
 * Threads that tokenize long prompts, so that the event loop, which also hands out everybody's tokens, does not stand still
 * meanwhile. Belongs to the thread that made it. Close it.
 */
export class TokenizerPool {
  readonly #pool: Piscina<PromptText, Answer>;
  readonly #log: Log;
  readonly #queueMax: number;
  readonly #timeoutMs: number;
  /** Aborted, and replaced, when a thread dies before its first job: piscina leaves the jobs in the queue then. */
  #broken = new AbortController();
  #failures = 0;
  #closed = false;

  constructor(options: TokenizerPoolOptions) {
    const { model, log, threads = 1, queueMax = QUEUE_MAX } = options;
    this.#log = log;
    this.#queueMax = queueMax;
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    const entry = options.entry ?? workerEntry("serving/tokenizing/tokenizer-worker.js");
    this.#pool = new Piscina<PromptText, Answer>({
      filename: entry.href,
      name: "encode",
      workerData: model,
      // Threads are started by jobs only: a thread that cannot load its tokenizer is not tried again without end.
      minThreads: 0,
      maxThreads: threads,
      idleTimeout: Infinity,
      maxQueue: queueMax,
    });
    this.#pool.on("error", (error: unknown) => {
      this.#failed(error);
      this.#broken.abort();
      this.#broken = new AbortController();
    });
  }

  /** Starts a thread now, so that the first long prompt does not wait for the tokenizer to be loaded. */
  async warm(): Promise<void> {
    await this.encode("");
  }

  /**
   * Token ids; null when the caller must tokenize itself, for the threads fail. Throws what the tokenizer refuses, CAPACITY when
   * as many prompts wait as may, TIMEOUT when there is no answer in time: tokenizing on the caller's thread would only hold up
   * everybody else then.
   */
  async encode(prompt: PromptText): Promise<Int32Array | null> {
    if (this.#closed || this.#failures >= FAILURES_MAX) return null;
    if (this.#pool.queueSize >= this.#queueMax) throw this.#full();
    const [timeout, broken] = [AbortSignal.timeout(this.#timeoutMs), this.#broken.signal];
    try {
      const tokens = await this.#pool.run(prompt, { signal: AbortSignal.any([timeout, broken]) });
      this.#failures = 0;
      if (tokens !== null && "problem" in tokens) throw new MooncakeKvError(tokens);
      return tokens;
    } catch (error) {
      if (error instanceof MooncakeKvError) throw error;
      if (timeout.aborted) throw this.#late(error);
      if (!broken.aborted) this.#failed(error);
      return null;
    }
  }

  /** Ends the threads; prompts in their hands come back as null. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#pool.destroy();
  }

  #failed(error: unknown): void {
    if (this.#closed) return;
    this.#failures++;
    const text =
      this.#failures < FAILURES_MAX
        ? "tokenizing thread failed; the prompt is tokenized on the server's thread"
        : "tokenizing threads failed too often; all prompts are tokenized on the server's thread from now on";
    this.#log.warn({ error: error instanceof Error ? error.stack : String(error) }, text);
  }

  #full(): MooncakeKvError {
    return new MooncakeKvError({
      code: "CAPACITY",
      field: "prompt",
      value: this.#queueMax,
      problem: "so many long prompts wait for being tokenized already",
      remedy: "Send it again later, or to another instance.",
    });
  }

  #late(cause: unknown): MooncakeKvError {
    return new MooncakeKvError({
      code: "TIMEOUT",
      field: "prompt",
      value: this.#timeoutMs,
      problem: "was not tokenized in time (milliseconds)",
      remedy: "Send it again later, or shorten it.",
      cause,
    });
  }
}
