import { createInterface } from "node:readline/promises";
import { fail, MooncakeKvError } from "../../errors.ts";
import { purgePool } from "../../pool/purge.ts";
import { hasCachePrefix, isChecksumKey, longerCachePrefix } from "../../store/key-names.ts";
import { choosePool } from "./target.ts";
import type { PoolTarget, TargetFlags } from "./target.ts";

interface PurgeFlags extends TargetFlags {
  readonly prefix?: string;
  readonly all?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

const FORCED = `--force removed keys that members may be reading. A member that does not look for removals, as vLLM does not, may load
what is saved in their place, and save what it computes from it: pause such members first, or leave --force out.
`;

/** Removes one deployment's keys, or with --all --force every key. */
export async function purge(flags: PurgeFlags): Promise<void> {
  const prefix = wanted(flags);
  const force = flags.force === true;
  const target = choosePool(flags);
  const found = await findKeys(target, prefix);
  const what =
    prefix === null
      ? "all keys of all deployments"
      : `keys of the deployments whose cache_prefix is ${JSON.stringify(prefix)}`;
  const where = `the pool of ${target.store.masterServerAddress}`;
  if (flags.yes !== true && found?.count !== 0) {
    const count = found === null ? "" : ` (${found.count})`;
    const risk = force ? "\nAlso keys that members may be reading." : "";
    if (!(await confirmed(`Remove ${what}${count} from ${where}?${risk} [y/N] `))) {
      process.stderr.write("nothing was removed\n");
      process.exitCode = 1;
      return;
    }
  }
  const removed = await purgePool(
    await target.client(),
    { prefix, force },
    async () => ((await findKeys(target, prefix))?.values ?? 0) > 0,
  );
  const left = await findKeys(target, prefix);
  if (flags.json === true)
    process.stdout.write(`${JSON.stringify({ prefix, removed, left: left?.count ?? null })}\n`);
  else
    process.stdout.write(
      `removed ${removed} ${what} from ${where}\n${remains(left, force)}${others(left)}`,
    );
  if (force) process.stderr.write(FORCED);
}

/** null: everything. Without a prefix keys of all deployments are meant, so that has to be said twice. */
function wanted(flags: PurgeFlags): string | null {
  if (flags.prefix !== undefined && flags.prefix !== "") {
    if (flags.all === true)
      fail("INVALID_VALUE", "--all", true, "does not go with --prefix", "Leave one of them out.");
    return flags.prefix;
  }
  if (flags.all === true && flags.force === true) return null;
  return fail(
    "MISSING",
    "--prefix",
    flags.prefix,
    "is empty: that would remove the keys of every deployment",
    "Name the cache_prefix of one deployment, or give --all --force.",
  );
}

interface FoundKeys {
  readonly count: number;
  /** Of these, keys that are no checksum's. */
  readonly values: number;
  /** Longer prefixes whose keys begin with this one and an @, and were left alone. */
  readonly longerPrefixes: readonly string[];
}

const LONGER_SHOWN = 8;

/** null: the master's metrics port cannot be reached, so nobody counts. */
async function findKeys(target: PoolTarget, prefix: string | null): Promise<FoundKeys | null> {
  try {
    const keys = await target.admin.keys();
    if (prefix === null) return { count: keys.length, values: keys.length, longerPrefixes: [] };
    const longer = new Set<string>();
    let [count, values] = [0, 0];
    for (const key of keys) {
      if (hasCachePrefix(key, prefix)) {
        count++;
        if (!isChecksumKey(key)) values++;
      } else if (longer.size < LONGER_SHOWN) {
        const other = longerCachePrefix(key, prefix);
        if (other !== null) longer.add(other);
      }
    }
    return { count, values, longerPrefixes: [...longer].toSorted() };
  } catch (error) {
    if (error instanceof MooncakeKvError) return null;
    throw error;
  }
}

function remains(left: FoundKeys | null, forced: boolean): string {
  if (left === null || left.count === 0) return "";
  const why = forced
    ? "written meanwhile"
    : "looked up within the last seconds or written meanwhile: repeat it in ten seconds";
  return `${left.count} are still there (${why})\n`;
}

/** A cache_prefix may hold an @, and a model's name too: then a key does not tell where the prefix ends. */
function others(left: FoundKeys | null): string {
  if (left === null || left.longerPrefixes.length === 0) return "";
  const named = left.longerPrefixes.map((each) => JSON.stringify(each)).join(", ");
  return `left alone: keys of the prefixes ${named} (of a model with an @ in its name too: name them with --prefix)\n`;
}

async function confirmed(question: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    fail(
      "MISSING",
      "--yes",
      undefined,
      "there is no terminal to ask",
      "Give --yes to remove the keys without a question.",
    );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await terminal.question(question)).trim());
  } finally {
    terminal.close();
  }
}
