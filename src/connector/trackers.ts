import { NONE, REQUEST_OUTPUT_TOKENS_WORD, REQUEST_PROMPT_TOKENS } from "../blocks/layout.ts";
import type { Tables } from "../blocks/tables.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { ConnectorSettings } from "./settings.ts";

/**
 * What of each request is computed and what is handed to saves: vLLM's RequestTracker, by slot.
 *
 * Tokens are saved up to `prefillEnd`, the length of all tokens when the request was first scheduled (again, after a
 * preemption, with the tokens that it had generated), unless save_decode_cache is set. A consumer saves what it decodes, and
 * that only with save_decode_cache.
 */
export class Trackers {
  readonly #tables: Tables;
  readonly #blockSize: number;
  readonly #canSave: boolean;
  readonly #consumer: boolean;
  readonly #saveDecode: boolean;
  readonly #reuse: Uint8Array;
  readonly #running: Uint8Array;
  readonly #tokenLength: Int32Array;
  readonly #savedTokens: Int32Array;
  readonly #prefillEnd: Int32Array;
  /** Where the next save starts: behind what earlier saves took, or at the first chunk of one that failed. */
  readonly #resumeTokens: Int32Array;
  /** Tokens whose KV is in the request's blocks, as far as steps are known to have run. */
  readonly #computedTokens: Int32Array;
  /** A save that was due had to be left out: try again even if the request decodes by now. */
  readonly #owed: Uint8Array;
  /** Hits end inside of blocks: the first save that covers the prompt publishes its tail too. */
  readonly #tails: boolean;
  readonly #tailSent: Uint8Array;

  constructor(tables: Tables, settings: ConnectorSettings, rules: HitRules) {
    const slots = tables.dimensions.requestSlots;
    this.#tables = tables;
    this.#blockSize = tables.dimensions.blockSize;
    this.#consumer = settings.role === "kv_consumer";
    this.#saveDecode = settings.saveDecodeCache;
    this.#canSave = settings.canSave;
    this.#reuse = new Uint8Array(slots);
    this.#running = new Uint8Array(slots);
    this.#tokenLength = new Int32Array(slots);
    this.#savedTokens = new Int32Array(slots);
    this.#prefillEnd = new Int32Array(slots);
    this.#resumeTokens = new Int32Array(slots);
    this.#computedTokens = new Int32Array(slots);
    this.#owed = new Uint8Array(slots);
    this.#tails = rules.partialBlocks;
    this.#tailSent = new Uint8Array(slots);
  }

  /** `reuse` false: the request is measured cold, its blocks are not saved (nor looked up). */
  added(slot: number, reuse: boolean): void {
    this.#reuse[slot] = reuse ? 1 : 0;
    this.reset(slot);
  }
  reuses(slot: number): boolean {
    return this.#reuse[slot] === 1;
  }
  /** Scheduled since it was added or preempted. */
  running(slot: number): boolean {
    return this.#running[slot] === 1;
  }
  /** Tokens that are computed, or will be with this step: not followed through the decode of what is not saved. */
  tokenLength(slot: number): number {
    return this.#tokenLength[slot]!;
  }
  prefillEnd(slot: number): number {
    return this.#prefillEnd[slot]!;
  }
  promptTokens(slot: number): number {
    return this.#tables.requests[this.#tables.request(slot) + REQUEST_PROMPT_TOKENS]!;
  }
  /** States handed over with the step may be saved. */
  savesStates(slot: number): boolean {
    return this.#canSave && !this.#consumer && this.#reuse[slot] === 1 && this.running(slot);
  }

  reset(slot: number): void {
    this.#running[slot] = 0;
    this.#owed[slot] = 0;
  }

  /** All tokens of the request: prompt and what is generated so far. */
  tokens(slot: number): number {
    const at = this.#tables.request(slot);
    return (
      this.#tables.requests[at + REQUEST_PROMPT_TOKENS]! +
      this.#tables.requests[at + REQUEST_OUTPUT_TOKENS_WORD]!
    );
  }

  /**
   * The step computes [computed, computed + count). Returns up to where the request's blocks are to be saved after it, in
   * tokens (whole blocks; 0 for a tail alone), or NONE for nothing new. `loading`: a load of the request is in this step; the two never mix.
   */
  scheduled(slot: number, computed: number, count: number, loading: boolean): number {
    const all = this.tokens(slot);
    let skip = loading;
    if (this.#running[slot] === 0) {
      this.#running[slot] = 1;
      this.#savedTokens[slot] = 0;
      this.#resumeTokens[slot] = 0;
      this.#tailSent[slot] = 0;
      this.#computedTokens[slot] = computed;
      this.#prefillEnd[slot] = all;
      this.#tokenLength[slot] = computed + count;
      skip ||= this.#consumer;
    } else {
      const decoding = computed >= this.#prefillEnd[slot]!;
      // Less than before: what lay behind is computed anew, after a load that failed.
      this.#computedTokens[slot] = Math.min(this.#computedTokens[slot]!, computed);
      if (!decoding || this.#saveDecode) this.#tokenLength[slot] = Math.min(computed + count, all);
      else if (this.#owed[slot] === 0) return NONE;
      skip ||= this.#consumer && !decoding;
    }
    return skip || !this.#canSave ? NONE : this.#due(slot);
  }

  /**
   * What `scheduled` would return, and nothing changed: lets the step be checked as a whole before the first job is made.
   */
  foresee(slot: number, computed: number, count: number, loading: boolean): number {
    if (loading || !this.#canSave || this.#reuse[slot] === 0) return NONE;
    const running = this.#running[slot] === 1;
    const decoding = running && computed >= this.#prefillEnd[slot]!;
    if (this.#consumer && !decoding) return NONE;
    let length = computed + count;
    if (decoding && !this.#saveDecode) {
      if (this.#owed[slot] === 0) return NONE;
      length = this.#tokenLength[slot]!;
    } else if (running) length = Math.min(length, this.tokens(slot));
    const whole = this.#wholeBlocks(slot, length);
    const saved = running ? this.#savedTokens[slot]! : 0;
    const tail = this.#tailDue(slot, length, !running || this.#tailSent[slot] === 0);
    return tail || whole >= saved + this.#blockSize ? whole : NONE;
  }

  /** The model ran a step of the request: its first `tokens` tokens are computed. */
  ran(slot: number, tokens: number): void {
    this.#computedTokens[slot] = tokens;
  }
  /** Up to where a request that ends is still to be saved, as `scheduled` says it; NONE when it owes nothing. */
  ending(slot: number, computedTokens: number | undefined): number {
    if (!this.running(slot) || this.#owed[slot] === 0 || !this.#canSave) return NONE;
    const computed = computedTokens ?? this.#computedTokens[slot]!;
    this.#tokenLength[slot] = Math.min(this.#tokenLength[slot]!, computed);
    return this.#due(slot);
  }

  /** The save that is due publishes the prompt's tail. */
  publishesTail(slot: number): boolean {
    return this.#tailDue(slot, this.#tokenLength[slot]!, this.#tailSent[slot] === 0);
  }

  savedTokens(slot: number): number {
    return this.#savedTokens[slot]!;
  }
  /** First token of the next save. */
  saveStart(slot: number): number {
    return Math.min(this.#resumeTokens[slot]!, this.#savedTokens[slot]!);
  }

  saved(slot: number, tokens: number): void {
    if (this.publishesTail(slot)) this.#tailSent[slot] = 1;
    this.#savedTokens[slot] = tokens;
    this.#resumeTokens[slot] = tokens;
    this.#owed[slot] = tokens + this.#blockSize <= this.#tokenLength[slot]! ? 1 : 0;
  }
  postponed(slot: number): void {
    this.#owed[slot] = 1;
  }
  /** The step was not announced after all, so its save from `fromToken` on is still due. */
  saveUndone(slot: number, fromToken: number): void {
    this.#savedTokens[slot] = fromToken;
    this.#resumeTokens[slot] = fromToken;
    this.#tailSent[slot] = 0;
    this.#owed[slot] = 1;
  }
  /** A save from `fromToken` on did not put everything: the next one starts there again. */
  saveFailed(slot: number, fromToken: number): void {
    this.#resumeTokens[slot] = Math.min(this.#resumeTokens[slot]!, fromToken);
  }

  #due(slot: number): number {
    if (this.#reuse[slot] === 0) return NONE;
    const whole = this.#wholeBlocks(slot, this.#tokenLength[slot]!);
    if (whole + this.#blockSize <= this.#tokenLength[slot]!) this.#owed[slot] = 1;
    const due = whole >= this.#savedTokens[slot]! + this.#blockSize;
    return due || this.publishesTail(slot) ? whole : NONE;
  }

  #tailDue(slot: number, length: number, unsent: boolean): boolean {
    return this.#tails && unsent && this.promptTokens(slot) <= length;
  }

  /** Whole blocks of the first `length` tokens that have a name: with look-ahead hashing the last one waits for more tokens. */
  #wholeBlocks(slot: number, length: number): number {
    const { hashBlockSize, hashLookaheadTokens } = this.#tables.dimensions;
    const named =
      hashLookaheadTokens === 0
        ? length
        : Math.min(length, this.#tables.hashableBlocks(this.tokens(slot)) * hashBlockSize);
    return named - (named % this.#blockSize);
  }
}
