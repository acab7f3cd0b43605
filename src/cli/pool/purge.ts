import { createInterface } from "node:readline/promises";
import { fail, MooncakeKvError } from "../../errors.ts";
import { keyStart, purgePool } from "../../pool/purge.ts";
import { choosePool } from "./target.ts";
import type { PoolTarget, TargetFlags } from "./target.ts";

interface PurgeFlags extends TargetFlags {
  readonly prefix?: string;
  readonly all?: boolean;
  readonly force?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Removes one deployment's keys, or with --all --force every key. */
export async function purge(flags: PurgeFlags): Promise<void> {
  const prefix = wanted(flags);
  const target = choosePool(flags);
  const found = await countKeys(target, prefix);
  const what =
    prefix === null
      ? "all keys of all deployments"
      : `keys that begin with ${JSON.stringify(keyStart(prefix))}`;
  const where = `the pool of ${target.store.masterServerAddress}`;
  if (flags.yes !== true && found !== 0) {
    const count = found === null ? "" : ` (${found})`;
    if (!(await confirmed(`Remove ${what}${count} from ${where}? [y/N] `))) {
      process.stderr.write("nothing was removed\n");
      process.exitCode = 1;
      return;
    }
  }
  const removed = await purgePool(await target.client(), { prefix, force: flags.force === true });
  const left = await countKeys(target, prefix);
  if (flags.json === true) process.stdout.write(`${JSON.stringify({ prefix, removed, left })}\n`);
  else
    process.stdout.write(
      `removed ${removed} ${what} from ${where}\n${remains(left, flags.force === true)}`,
    );
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

/** null: the master's metrics port cannot be reached, so nobody counts. */
async function countKeys(target: PoolTarget, prefix: string | null): Promise<number | null> {
  try {
    const keys = await target.admin.keys();
    return prefix === null
      ? keys.length
      : keys.filter((key) => key.startsWith(keyStart(prefix))).length;
  } catch (error) {
    if (error instanceof MooncakeKvError) return null;
    throw error;
  }
}

function remains(left: number | null, forced: boolean): string {
  if (left === null || left === 0) return "";
  const why = forced
    ? "written meanwhile"
    : "in use or written meanwhile: repeat it in some seconds, or give --force";
  return `${left} are still there (${why})\n`;
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
