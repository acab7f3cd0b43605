import { ACTOR_LOOKUP } from "../actors/messages.ts";
import {
  REQUEST_EXTRAS_PAGE,
  REQUEST_GENERATION,
  REQUEST_HASH_PAGE,
  REQUEST_OUTPUT_TOKENS_WORD,
  REQUEST_PROMPT_TOKENS,
  REQUEST_TOKEN_PAGE,
} from "../blocks/layout.ts";
import { brokenInvariant } from "../errors.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";

/** Which blocks of each request are hashed: the prompt by the lookup actor, later ones here as they fill. */
export class Hashes {
  readonly #ports: SchedulerPorts;
  readonly #counters: ConnectorCounters;
  readonly #pending: Uint8Array;
  readonly #hashed: Int32Array;
  #lookupGone = false;

  constructor(ports: SchedulerPorts, counters: ConnectorCounters) {
    this.#ports = ports;
    this.#counters = counters;
    this.#pending = new Uint8Array(ports.tables.dimensions.requestSlots);
    this.#hashed = new Int32Array(ports.tables.dimensions.requestSlots);
  }

  /** Asks for the prompt's hashes, where there is a whole block and anybody may use it. */
  added(slot: number, reuse: boolean): void {
    const { tables } = this.#ports;
    const at = tables.request(slot);
    this.#hashed[slot] = 0;
    const prompt = tables.requests[at + REQUEST_PROMPT_TOKENS]!;
    const wanted = reuse && !this.#lookupGone && tables.hashableBlocks(prompt) > 0;
    this.#pending[slot] = wanted ? 1 : 0;
    if (wanted) this.#request(slot);
  }

  /** The lookup actor is at work on the slot's hash row. */
  pending(slot: number): boolean {
    return this.#pending[slot] === 1;
  }
  blocks(slot: number): number {
    return this.#hashed[slot]!;
  }

  done(slot: number, blocks: number): boolean {
    if (this.#pending[slot] === 0) {
      this.#counters.staleMessages++;
      return false;
    }
    this.#pending[slot] = 0;
    this.#hashed[slot] = blocks;
    return true;
  }

  /** A request for hashes that the dead actor had taken would be lost. */
  actorRestarted(): void {
    for (let slot = 0; slot < this.#pending.length; slot++)
      if (this.#pending[slot] === 1) this.#request(slot);
  }

  /** Nobody hashes prompts any more but this side, when a save needs it. */
  lookupGone(): void {
    this.#lookupGone = true;
    this.#pending.fill(0);
  }

  /**
   * Makes sure that all hash blocks within the request's first `tokens` tokens are hashed, computing those past the prompt.
   * False while the prompt's hashes are on their way.
   */
  cover(slot: number, tokens: number): boolean {
    const { tables, hashBlocks } = this.#ports;
    if (this.#pending[slot] === 1) return false;
    const wanted = Math.floor(tokens / tables.dimensions.hashBlockSize);
    const hashed = this.#hashed[slot]!;
    if (wanted <= hashed) return true;
    const at = tables.request(slot);
    const known =
      tables.requests[at + REQUEST_PROMPT_TOKENS]! +
      tables.requests[at + REQUEST_OUTPUT_TOKENS_WORD]!;
    if (hashBlocks === undefined || wanted > tables.hashableBlocks(known)) return false;
    const status = hashBlocks(
      tables.requests[at + REQUEST_TOKEN_PAGE]!,
      tables.requests[at + REQUEST_HASH_PAGE]!,
      tables.requests[at + REQUEST_EXTRAS_PAGE]!,
      hashed,
      wanted,
    );
    if (status < 0) brokenInvariant("hashing blocks past the prompt failed", status);
    this.#hashed[slot] = wanted;
    return true;
  }

  #request(slot: number): void {
    const { tables } = this.#ports;
    const generation = tables.requests[tables.request(slot) + REQUEST_GENERATION]!;
    this.#ports.send(ACTOR_LOOKUP, { kind: "hashRequest", slot, generation });
  }
}
