import { Option } from "commander";
import { homedir } from "node:os";
import { join } from "node:path";
import { DEFAULT_HASH_ALGORITHM, HASH_ALGORITHMS_SUPPORTED } from "../config/kv-cache-config.ts";
import { parseSizeBytes } from "../config/sizes.ts";
import { MooncakeKvError } from "../errors.ts";

/** Parses a whole number of an option within bounds; the error names the option as it was typed. */
export function wholeNumber(option: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isInteger(value) && value >= least && value <= most)
      return value;
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: option,
      value: text,
      problem: `must be a whole number from ${least} to ${most}`,
      remedy: `Give for example ${option} ${Math.max(least, Math.min(most, 8))}.`,
    });
  };
}

/** A size such as 2gb, 512 MB or a number of bytes. */
export function sizeBytes(option: string): (text: string) => number {
  return (text) => parseSizeBytes(/^\d+$/.test(text) ? Number(text) : text, option);
}

/** vLLM's option of the same name, so that one command line's choice can be pasted into the other. */
export function hashAlgorithmOption(): Option {
  return new Option(
    "--prefix-caching-hash-algo <name>",
    "how blocks are named, as vLLM's option; the same in every process that shares the pool",
  )
    .choices([...HASH_ALGORITHMS_SUPPORTED])
    .default(DEFAULT_HASH_ALGORITHM);
}

/** Where downloaded and converted models are kept unless the user says otherwise. */
export function defaultCacheFolder(environment: NodeJS.ProcessEnv): string {
  return (
    environment["MOONCAKE_KV_CACHE"] ??
    join(environment["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "mooncake-kv", "models")
  );
}
