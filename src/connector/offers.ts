import { MooncakeKvError } from "../errors.ts";
import type { HitRules } from "../keys/coordinator/hit-rules.ts";
import type { Jobs } from "./jobs.ts";
import { LoadSpecs } from "./load-specs.ts";
import type { Loads } from "./loads.ts";
import type { Lookups } from "./lookups.ts";
import type { ConnectorCounters, SchedulerPorts } from "./ports.ts";

/** What of the pool's hits is offered to requests, and what they take of it. */
export class Offers {
  readonly #ports: SchedulerPorts;
  readonly #rules: HitRules;
  readonly #jobs: Jobs;
  readonly #loads: Loads;
  readonly #lookups: Lookups;
  readonly #counters: ConnectorCounters;
  readonly #specs: LoadSpecs;

  constructor(
    ports: SchedulerPorts,
    parts: {
      rules: HitRules;
      jobs: Jobs;
      loads: Loads;
      lookups: Lookups;
      counters: ConnectorCounters;
    },
  ) {
    this.#ports = ports;
    this.#rules = parts.rules;
    this.#jobs = parts.jobs;
    this.#loads = parts.loads;
    this.#lookups = parts.lookups;
    this.#counters = parts.counters;
    this.#specs = new LoadSpecs(ports.tables, parts.rules);
    this.#jobs.reserve(() => this.#specs.open);
  }

  /** Tokens of the hit beyond `computedTokens`, when they are worth a load; else 0, or a failure when none can be started. */
  offer(slot: number, computedTokens: number, hitTokens: number): number {
    const need = hitTokens - computedTokens;
    if (need <= 0 || need < this.#ports.settings.minLoadTokens) return 0;
    const specs = this.#specs;
    const records = this.#jobs.freeRecords() - specs.open + (specs.has(slot) ? 1 : 0);
    const room = records > 0 && !this.#jobs.tooManyLost();
    if (room && specs.offer(slot, computedTokens, hitTokens, this.#lookups.tails)) return need;
    this.#counters.loadBackPressure++;
    return this.#lookups.pushedBack(slot);
  }

  /** The request has its blocks: writes the load down, unless the offer is not taken (0 tokens). */
  taken(slot: number, externalTokens: number): void {
    this.#lookups.consumed(slot);
    if (externalTokens === 0) {
      this.#specs.drop(slot);
      return;
    }
    this.#specs.check(slot, externalTokens);
    const pool = this.#specs.poolTokens(slot);
    this.#rules.groups.forEach(({ spanTokens }, group) => {
      const blocks = this.#ports.tables.rowBlocks(slot, group);
      if (blocks * spanTokens < pool) throw tooFewBlocks(group, blocks, pool / spanTokens);
    });
    this.#loads.create(slot, this.#specs);
    this.#specs.drop(slot);
  }

  drop(slot: number): void {
    this.#specs.drop(slot);
  }
  closeStep(): void {
    this.#specs.closeStep();
  }
}

function tooFewBlocks(group: number, blocks: number, needed: number): MooncakeKvError {
  return new MooncakeKvError({
    code: "INVALID_VALUE",
    field: `blockIds[${group}]`,
    value: blocks,
    problem: `the request has fewer blocks than the load it took: ${Math.ceil(needed)} are needed`,
    remedy: "Name all its blocks, those that are loaded included.",
  });
}
