import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { IDENTITY_KEY_ENDING } from "../../../src/connector/identity/identity.ts";
import { isChecksumKey } from "../../../src/store/key-names.ts";
import { PythonClient } from "./mooncake.ts";
import { CLIENT_TTL_SECONDS, MortalPool } from "./mortal-pool.ts";
import { writeStore } from "./real-pool.ts";
import {
  LOOP_BLOCK,
  LOOP_LAYER_BYTES,
  type LoopAnswer,
  type LoopFigures,
  type LoopRequest,
  PoolLoop,
} from "./real-pool-process.ts";
import { seededRandom } from "./seeded-random.ts";

export interface SoakOptions {
  readonly seed: number;
  readonly durationMs: number;
  /** Of the connectors. */
  readonly extra: Readonly<Record<string, unknown>>;
  /** Mean times between two of a kind. */
  readonly everyMs: {
    readonly ownerDies: number;
    readonly reset: number;
    readonly replace: number;
  };
}

/** What happened; everything is counted. */
export interface SoakSummary {
  readonly answers: number;
  /** Answers with a block whose bytes are not those of its tokens, and what the first of them were. */
  readonly wrong: number;
  readonly wrongAnswers: readonly WrongAnswer[];
  readonly tokensFound: number;
  readonly tokensLoaded: number;
  /** Of the connectors' own counters, both members together. */
  readonly tokensRefused: number;
  readonly tokensVerified: number;
  readonly tokensUnverified: number;
  readonly replaced: number;
  readonly emptied: number;
  readonly stops: number;
  readonly ownerDeaths: number;
  /** By ACKNOWLEDGED or the reason why not. */
  readonly resets: Readonly<Record<string, number>>;
  /** At the end: prompts of which one block was replaced, and of these, reads that were cut at that very block. */
  readonly lastReplaced: number;
  readonly lastFound: number;
  /** Gauges that are not zero at the end, of each member. */
  readonly gauges: readonly Readonly<Record<string, number>>[];
  /** Exit codes of the members: 0 when nothing was left in flight. */
  readonly exits: readonly (number | null)[];
}

interface WrongAnswer extends LoopAnswer {
  readonly member: string;
  readonly seed: number;
  readonly atMs: number;
}
const WRONG_ANSWERS_TOLD = 8;

const LAYERS = 2;
const VALUE_BYTES = LAYERS * LOOP_LAYER_BYTES;
const BLOCKS = 24;
/** Prompts that come again and again: less than the pool, so that no checksum is evicted before its value. */
const PROMPTS = 8;
const POOL_BYTES = 2 * PROMPTS * BLOCKS * VALUE_BYTES;
/** A key is replaced once in so many turns: meanwhile members remove it together with its checksum. */
const REPLACED_ONCE_TURNS = 400;
/** For so long after an owner's death keys of a dead value's checksum may still be there, and then go without what was put since. */
const FORGOTTEN_AFTER_MS = 2_000 * CLIENT_TTL_SECONDS;
/** Blocks of a member: some prompts' may be held by transfers to dead owners. */
const BLOCK_COUNT = 8 * BLOCKS;
/** Such a reset may last a lease and the time of its rounds. */
const RESET_MS = 14_000;
const STOPPED_MS_MAX = 1_500;
const LAST_PROMPTS = 3;
const REST_WITHIN_MS = 60_000;
/** What the pool holds, and how it stands, is no leak. */
const NO_LEAKS = /^mooncake_kv_(pool_|engine_open)/;

/**
 * Two members, a client that replaces values and removes by force, an owner that dies, all at once: one member is stopped amid loads, the
 * other resets the pool by force. Every byte that a member loads is compared with what its tokens say.
 */
export class PoolSoak {
  readonly #options: SoakOptions;
  readonly #random: (below: number) => number;
  readonly #pool: MortalPool;
  readonly #members: readonly [PoolLoop, PoolLoop];
  readonly #client: PythonClient;
  readonly #folder: string;
  readonly #counts = {
    answers: 0,
    wrong: 0,
    tokensFound: 0,
    tokensLoaded: 0,
    replaced: 0,
    emptied: 0,
    stops: 0,
    ownerDeaths: 0,
  };
  readonly #wrongAnswers: WrongAnswer[] = [];
  readonly #resets: Record<string, number> = {};
  /** Keys with the turn in which each was replaced last. */
  readonly #replacedIn = new Map<string, number>();
  #endMs = 0;
  #ownerDiedAtMs = -Infinity;

  private constructor(
    options: SoakOptions,
    parts: {
      readonly pool: MortalPool;
      readonly members: readonly [PoolLoop, PoolLoop];
      readonly client: PythonClient;
      readonly folder: string;
    },
  ) {
    this.#options = options;
    this.#random = seededRandom(options.seed);
    this.#pool = parts.pool;
    this.#members = parts.members;
    this.#client = parts.client;
    this.#folder = parts.folder;
  }

  static async start(options: SoakOptions): Promise<PoolSoak> {
    const folder = mkdtempSync(join(tmpdir(), "pool-soak-"));
    const pool = await MortalPool.start(POOL_BYTES);
    const joinPool = (): Promise<PoolLoop> =>
      PoolLoop.start({
        storePath: writeStore(folder, pool.store),
        blockCount: BLOCK_COUNT,
        layers: LAYERS,
        extra: { save_timeout_ms: 20_000, ...options.extra },
        environment: { MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1" },
      });
    const members = [await joinPool(), await joinPool()] as const;
    const client = await PythonClient.start(pool.store.master_server_address);
    return new PoolSoak(options, { pool, members, client, folder });
  }

  async run(): Promise<SoakSummary> {
    this.#endMs = performance.now() + this.#options.durationMs;
    await Promise.all([this.#reads(), this.#resetsAndSaves(), this.#replaces(), this.#kills()]);
    const lastFound = await this.#lastReplacements();
    const figures = await Promise.all(this.#members.map((member) => atRest(member)));
    const exits = await Promise.all(this.#members.map((member) => member.stop()));
    const counted = (check: string): number =>
      figures
        .map(({ counters }) => counters[`mooncake_kv_hit_tokens_total{${check}}`] ?? 0)
        .reduce((sum, each) => sum + each, 0);
    return {
      ...this.#counts,
      wrongAnswers: this.#wrongAnswers,
      tokensRefused: counted("refused"),
      tokensVerified: counted("verified"),
      tokensUnverified: counted("unverified"),
      resets: this.#resets,
      lastReplaced: LAST_PROMPTS,
      lastFound,
      gauges: figures.map(({ gauges }) => gauges),
      exits,
    };
  }

  /** Ends all processes; may be called at any time. */
  async stop(): Promise<void> {
    for (const member of this.#members) {
      member.process.kill("SIGCONT");
      await member.kill();
    }
    await this.#client.kill();
    await this.#pool.stop();
    rmSync(this.#folder, { recursive: true });
  }

  #over(neededMs = 0): boolean {
    return performance.now() + neededMs >= this.#endMs;
  }
  #prompt(): LoopRequest {
    const seed = 1 + this.#random(PROMPTS);
    return { seed, blocks: BLOCKS, reuse: this.#random(8) !== 0 };
  }
  async #pause(meanMs: number): Promise<void> {
    await sleep(Math.min(this.#random(2 * meanMs), Math.max(0, this.#endMs - performance.now())));
  }
  async #ask(
    member: PoolLoop,
    request: LoopRequest = this.#prompt(),
    onLoading = (): void => undefined,
  ): Promise<LoopAnswer> {
    const answer = await member.request(request, onLoading);
    this.#counts.answers++;
    this.#counts.tokensFound += answer.found;
    this.#counts.tokensLoaded += answer.kept;
    if (answer.differing === 0) return answer;
    this.#counts.wrong++;
    const atMs = Math.round(performance.now() - this.#endMs);
    const name = member === this.#members[0] ? "first" : "second";
    if (this.#wrongAnswers.length < WRONG_ANSWERS_TOLD)
      this.#wrongAnswers.push({ ...answer, member: name, seed: request.seed, atMs });
    return answer;
  }

  /** The first member; now and then it is stopped amid a load. */
  async #reads(): Promise<void> {
    const [reader] = this.#members;
    while (!this.#over()) {
      let stopping: Promise<void> = Promise.resolve();
      await this.#ask(reader, this.#prompt(), () => {
        if (this.#random(3) === 0) stopping = this.#stopReader(reader);
      });
      await stopping;
    }
  }
  async #stopReader({ process: reader }: PoolLoop): Promise<void> {
    await sleep(this.#random(6));
    reader.kill("SIGSTOP");
    this.#counts.stops++;
    await sleep(this.#random(STOPPED_MS_MAX));
    reader.kill("SIGCONT");
  }

  /** The second member. */
  async #resetsAndSaves(): Promise<void> {
    const [, other] = this.#members;
    let resetAtMs = performance.now() + this.#random(this.#options.everyMs.reset);
    while (!this.#over()) {
      if (performance.now() >= resetAtMs && !this.#over(RESET_MS)) {
        const answer = await other.reset(true);
        const outcome = answer.acknowledged ? "ACKNOWLEDGED" : answer.reason;
        this.#resets[outcome] = (this.#resets[outcome] ?? 0) + 1;
        resetAtMs = performance.now() + this.#random(2 * this.#options.everyMs.reset);
      }
      await this.#ask(other);
    }
  }

  /** The wheel's client: other bytes of the right size, and now and then all removed by force and filled. */
  async #replaces(): Promise<void> {
    for (let turn = 1; !this.#over(); turn++) {
      await this.#pause(this.#options.everyMs.replace);
      if (performance.now() < this.#ownerDiedAtMs + FORGOTTEN_AFTER_MS) continue;
      const keys = (await this.#blockKeys()).filter(
        (key) => turn - (this.#replacedIn.get(key) ?? -Infinity) > REPLACED_ONCE_TURNS,
      );
      if (keys.length === 0) continue;
      if (turn % 32 === 0) {
        await this.#client.removeAll();
        const others = Array.from({ length: BLOCKS }, (_, at) => `other@${turn}@${at}`);
        await this.#client.store(others, VALUE_BYTES, turn % 256);
        this.#counts.emptied++;
        continue;
      }
      const chosen = Array.from(
        { length: 1 + this.#random(4) },
        () => keys[this.#random(keys.length)] ?? "",
      );
      for (const key of chosen) this.#replacedIn.set(key, turn);
      const codes = await this.#client.replace(chosen, VALUE_BYTES, turn % 256);
      this.#counts.replaced += codes.filter((code) => code === 0).length;
    }
  }
  async #blockKeys(): Promise<string[]> {
    const keys = await this.#pool.keys();
    return keys.filter(
      (key) =>
        key.includes("@tp_rank:") && !isChecksumKey(key) && !key.endsWith(IDENTITY_KEY_ENDING),
    );
  }

  async #kills(): Promise<void> {
    for (;;) {
      await this.#pause(this.#options.everyMs.ownerDies);
      if (this.#over()) return;
      this.#ownerDiedAtMs = Infinity;
      await this.#pool.killOwner();
      this.#counts.ownerDeaths++;
      await this.#pool.startOwner();
      this.#ownerDiedAtMs = performance.now();
    }
  }

  /** With nothing else going on: a prompt is saved, one block replaced, and the next read ends in front of it. Returns how many did. */
  async #lastReplacements(): Promise<number> {
    const [reader] = this.#members;
    let found = 0;
    for (let nth = 0; nth < LAST_PROMPTS; nth++) {
      const prompt = { seed: 20_000 + nth, blocks: BLOCKS };
      await this.#client.removeAll();
      await this.#ask(reader, prompt);
      const keys = await this.#blockKeys();
      await this.#client.replace([keys[this.#random(keys.length)] ?? ""], VALUE_BYTES, 7);
      const answer = await this.#ask(reader, prompt);
      if (answer.kept < BLOCKS * LOOP_BLOCK && answer.differing === 0) found++;
    }
    return found;
  }
}

/** Figures of a member in which nothing is left to do. */
async function atRest(member: PoolLoop): Promise<LoopFigures> {
  const deadlineMs = performance.now() + REST_WITHIN_MS;
  for (;;) {
    const { counters, gauges } = await member.figures();
    const left = Object.fromEntries(
      Object.entries(gauges).filter(([name]) => !NO_LEAKS.test(name)),
    );
    if (Object.keys(left).length === 0 || performance.now() > deadlineMs)
      return { counters, gauges: left };
    await sleep(50);
  }
}
