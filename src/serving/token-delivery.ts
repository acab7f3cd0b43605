import type { RequestFinished, TokenGenerated } from "../actors/messages.ts";
import { NONE, REQUEST_OUTPUT_TOKENS_WORD, REQUEST_TOKEN_PAGE } from "../blocks/layout.ts";
import { readLogprobRow, type TopLogprob } from "../blocks/logprob-rows.ts";
import { HISTOGRAM_NUMBERS } from "../trace/counters.ts";
import type { FrontEndPorts, RequestSummary } from "./front-end-types.ts";
import type { LiveRequest } from "./live-request.ts";
import { logitsHashText } from "./model/logits-hash.ts";

/**
 * Hands tokens and ends to the listeners: each token exactly once and in order, whatever dies. The scheduler publishes a token
 * in the token row before it announces it, so tokens that a dead scheduler did not announce are read from there, and repeated
 * ones are dropped.
 */
export class TokenDelivery {
  readonly #ports: FrontEndPorts;
  readonly #bits = new Int32Array(2);
  readonly #float = new Float32Array(this.#bits.buffer, 0, 1);

  constructor(ports: FrontEndPorts) {
    this.#ports = ports;
  }

  /** False when the token was handed over before. */
  generated(live: LiveRequest, message: TokenGenerated): boolean {
    if (live.finished || message.index < live.nextIndex) return false;
    this.readMissed(live, message.index);
    const { slot, generation, index, logprobRow } = message;
    const top =
      logprobRow === NONE
        ? null
        : readLogprobRow(this.#ports.tables, logprobRow, slot, generation, index);
    this.#bits[0] = message.logprobF32;
    const logprob = live.request.logprobs === undefined ? Number.NaN : this.#float[0]!;
    this.#bits[0] = message.logitsHashLow;
    this.#bits[1] = message.logitsHashHigh;
    this.#deliver(live, message.token, logprob, top, logitsHashText(this.#bits));
    return true;
  }

  /** Hands over published tokens up to number `upTo` (all of them by default) that were never announced. */
  readMissed(live: LiveRequest, upTo = Infinity): void {
    if (live.finished || live.nextIndex >= upTo) return;
    const { tables, log } = this.#ports;
    const at = tables.request(live.slot);
    // Pairs with the scheduler's store after it has appended the tokens.
    const published = Atomics.load(tables.requests, at + REQUEST_OUTPUT_TOKENS_WORD);
    const end = Math.min(upTo, published);
    if (live.nextIndex >= end) return;
    log.warn({ request: live.request.id, from: live.nextIndex, to: end }, "tokens not announced");
    const page = tables.requests[at + REQUEST_TOKEN_PAGE]!;
    while (live.nextIndex < end) {
      const token = tables.tokens.get(page, live.request.promptTokens.length + live.nextIndex);
      this.#deliver(live, token, Number.NaN, null, "");
    }
  }

  /** False when the request had ended before. */
  finished(live: LiveRequest, message: RequestFinished): boolean {
    if (live.finished) return false;
    this.readMissed(live, message.outputTokens);
    const seconds = (this.#ports.nowMs() - live.submittedMs) / 1000;
    this.#ports.counters.observe(HISTOGRAM_NUMBERS.requestLatency, seconds);
    this.end(live, {
      reason: message.reason,
      outputTokens: message.outputTokens,
      localTokens: message.localTokens,
      poolTokens: message.poolTokens,
      lookupOutcome: message.lookupOutcome,
      preemptions: message.preemptions,
      timeToFirstTokenMs: live.firstTokenMs - live.submittedMs,
      failure: null,
    });
    return true;
  }

  end(live: LiveRequest, summary: RequestSummary): void {
    if (live.finished) return;
    live.finished = true;
    live.listener.finished(summary);
  }

  #deliver(
    live: LiveRequest,
    token: number,
    logprob: number,
    top: readonly TopLogprob[] | null,
    logitsHash: string,
  ): void {
    const index = live.nextIndex++;
    if (index === 0) {
      live.firstTokenMs = this.#ports.nowMs();
      const seconds = (live.firstTokenMs - live.submittedMs) / 1000;
      this.#ports.counters.observe(HISTOGRAM_NUMBERS.timeToFirstToken, seconds);
    }
    if (!live.aborted) live.listener.token(token, index, logprob, top, logitsHash);
  }
}
