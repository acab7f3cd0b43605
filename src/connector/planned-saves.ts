import { NONE, REQUEST_BLOCK_PAGE } from "../blocks/layout.ts";
import { isTokenId } from "../blocks/token-ids.ts";
import { MooncakeKvError } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import { tailBlocks } from "../keys/coordinator/tail-blocks.ts";
import { BoundaryPuts } from "./boundary-puts.ts";
import type { BoundaryState } from "./hooks.ts";
import type { Hashes } from "./hashes.ts";
import type { Jobs } from "./jobs.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";
import type { Trackers } from "./trackers.ts";

interface Parts {
  readonly rules: HitRules;
  readonly jobs: Jobs;
  readonly hashes: Hashes;
  readonly trackers: Trackers;
  readonly counters: ConnectorCounters;
}

/**
 * Saves of models whose transfers are planned: whole rows from the request's start, the states that the loop hands over with
 * the step that completes them, and the blocks at a prompt's end that no whole save holds.
 */
export class PlannedSaves {
  readonly #ports: SchedulerPorts;
  readonly #parts: Parts;
  readonly #states = new BoundaryPuts();
  /** Request of each state; NONE once it is saved or dropped. */
  readonly #slots: number[] = [];
  readonly #puts = new BoundaryPuts();

  constructor(ports: SchedulerPorts, parts: Parts) {
    this.#ports = ports;
    this.#parts = parts;
  }

  handOver(slot: number, group: number, block: number, tokens: number): void {
    const { count } = this.#states;
    this.#states.add(group, block, tokens);
    if (this.#states.count > count) this.#slots.push(slot);
  }
  leave(slot: number): void {
    for (let put = 0; put < this.#slots.length; put++)
      if (this.#slots[put] === slot) this.#slots[put] = NONE;
  }
  closeStep(): void {
    this.#states.clear();
    this.#slots.length = 0;
  }

  /** The save of the first `tokens` tokens, whole blocks, with the request's states of this step. NONE: postponed. */
  create(slot: number, tokens: number): number {
    const { trackers } = this.#parts;
    const states = this.#accepted(slot);
    const publish = trackers.publishesTail(slot);
    const computed = trackers.tokenLength(slot);
    return this.#create(slot, tokens, { publish, states, computed });
  }

  /** Requests of states that no save of the step took with it get one of their own, in turn; NONE when none is left. */
  nextStates(): { readonly slot: number; readonly job: number } | null {
    const slot = this.#slots.find((each) => each !== NONE);
    if (slot === undefined) return null;
    const states = this.#accepted(slot);
    this.leave(slot);
    if (states.length === 0) return { slot, job: NONE };
    const computed = this.#parts.trackers.tokenLength(slot);
    const job = this.#create(slot, 0, { publish: false, states, computed });
    if (job === NONE) this.#parts.counters.droppedStates += states.length;
    return { slot, job };
  }

  /** States of a request that ends, with the rest of its prompt's tail. NONE when there is nothing to save, or no room. */
  createFinal(slot: number, puts: readonly BoundaryState[], computedTokens: number): number {
    const { rules, trackers, counters } = this.#parts;
    for (const { group, tokens } of puts) checkState(rules, group, tokens);
    const [first] = puts;
    if (first === undefined || !trackers.savesStates(slot)) return NONE;
    if (puts.some(({ tokens }) => tokens !== first.tokens))
      throw invalid("tokens", puts, "of one request's last states differ", "End all at one token.");
    if (first.tokens > trackers.prefillEnd(slot) || puts.some(({ block }) => block === 0))
      return NONE;
    const states = puts.map(({ group, block, tokens }) => [group, block, tokens] as const);
    const job = this.#create(slot, 0, {
      publish: false,
      states,
      computed: computedTokens,
    });
    if (job === NONE) counters.droppedStates += puts.length;
    return job;
  }

  /** States past this prefill complete no hit: every other group stops saving there. */
  #accepted(slot: number): (readonly [number, number, number])[] {
    const { trackers } = this.#parts;
    const states: [number, number, number][] = [];
    if (!trackers.savesStates(slot)) return states;
    for (let put = 0; put < this.#slots.length; put++) {
      if (this.#slots[put] !== slot) continue;
      const [group, block, tokens] = this.#state(put);
      if (block !== 0 && tokens <= trackers.prefillEnd(slot)) states.push([group, block, tokens]);
    }
    return states;
  }
  #state(put: number): [number, number, number] {
    return [this.#states.group(put), this.#states.block(put), this.#states.tokens(put)];
  }

  #create(
    slot: number,
    tokens: number,
    {
      publish,
      states,
      computed,
    }: {
      readonly publish: boolean;
      readonly states: readonly (readonly [number, number, number])[];
      readonly computed: number;
    },
  ): number {
    const { rules, jobs, hashes, trackers } = this.#parts;
    const { tables } = this.#ports;
    const known = tables.hashableBlocks(trackers.tokens(slot));
    const puts = this.#puts;
    puts.clear();
    const stateTokens = states.flatMap(([group, , end]) =>
      end % rules.groups[group]!.spanTokens === 0 ? [] : [end],
    );
    const promptTokens = trackers.promptTokens(slot);
    const tail = {
      promptTokens,
      computedTokens: computed,
      hashes: known,
      publish,
      stateTokens,
    };
    for (const { group, chunk, tokens: end } of tailBlocks(rules, tail)) {
      const block = this.#block(slot, group, chunk);
      if (block !== 0) puts.add(group, block, end);
    }
    for (const [group, block, end] of states)
      if (end <= known * rules.hashBlockSize) puts.add(group, block, end);
    if (tokens === 0 && puts.count === 0 && !publish) return NONE;
    if (!jobs.roomForSave()) return NONE;
    if (!hashes.cover(slot, Math.max(tokens, puts.tokensMax()))) return NONE;
    const job = jobs.createPlannedSave(slot, tokens, trackers.prefillEnd(slot), puts);
    if (job !== NONE) this.leave(slot);
    return job;
  }

  /** Block `chunk` of the request's row of the group; 0 beyond its end. */
  #block(slot: number, group: number, chunk: number): number {
    const { tables } = this.#ports;
    const at = tables.request(slot);
    if (chunk >= tables.rowBlocks(slot, group)) return 0;
    return tables.blocks.get(tables.requests[at + REQUEST_BLOCK_PAGE + group]!, chunk);
  }
}

/** Throws INVALID_VALUE for a group without states, or tokens that no hash names. */
export function checkState(rules: HitRules, group: number, tokens: number): void {
  if (rules.groups[group]?.needs !== "state")
    throw invalid("group", group, "is no group of states", "Give the states of Mamba groups only.");
  // A number that is cut to 32 bits would store the state under the key of a shorter prefix.
  const counted = isTokenId(tokens) && tokens > 0;
  if (counted && tokens % rules.hashBlockSize === 0) return;
  const problem = `ends on no block hash: these cover ${rules.hashBlockSize} tokens each`;
  throw invalid("tokens", tokens, problem, "Give the state at the end of a hash block.");
}

function invalid(field: string, value: unknown, problem: string, remedy: string): MooncakeKvError {
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: `boundaryPuts.${field}`,
    value,
    problem,
    remedy,
  });
}
