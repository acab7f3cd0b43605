import type { Command } from "commander";
import { sizeBytes, wholeNumber } from "../options.ts";
import { purge } from "./purge.ts";
import { flagValue, start } from "./start.ts";
import { stats } from "./stats.ts";
import { stop } from "./stop.ts";

/** Mooncake's own default port. */
const MASTER_PORT = 50051;

/** `mooncake-kv pool start | stop | stats | purge`. */
export function addPoolCommand(program: Command): void {
  const pool = program
    .command("pool")
    .description("a real Mooncake pool for development: start, stop, look into it, empty it");
  addStart(pool);
  pool
    .command("stop")
    .description("stop a pool that was started on this machine")
    .option("--port <number>", "the one whose master has this port", port("--port"))
    .option("--all", "all of them")
    .option("--json", "print one JSON object")
    .action(stop);
  addTarget(pool.command("stats"))
    .description("members, use, keys and identities")
    .option("--json", "print one JSON object")
    .action(stats);
  addTarget(pool.command("purge"))
    .description("remove the keys of one deployment")
    .option("--prefix <text>", "its cache_prefix, to the letter")
    .option("--all", "every key of the pool, of every deployment; needs --force")
    .option(
      "--force",
      "also keys that were looked up within the last seconds: a member that is reading them may take what is saved in their place",
    )
    .option("--yes", "do not ask")
    .option("--json", "print one JSON object")
    .action(purge);
}

function addStart(pool: Command): void {
  pool
    .command("start")
    .description(
      "start a master (and an owner) on this machine's loopback; prints the store's JSON on standard output",
    )
    .option("--port <number>", "port of the master; 0: a free one", port("--port"), MASTER_PORT)
    .option("--metrics-port <number>", "its metrics; 0: a free one", port("--metrics-port"), 0)
    .option("--owner", "start an owner (mooncake_client) that holds the memory of the pool")
    .option("--owners <number>", "start so many owners", wholeNumber("--owners", 1, 64))
    .option(
      "--memory <size>",
      "of each owner; without one, of each member",
      sizeBytes("--memory"),
      1024 ** 3,
    )
    .option(
      "--local-buffer <size>",
      "private buffer of each member",
      sizeBytes("--local-buffer"),
      256 * 1024 ** 2,
    )
    .option("--ssd <folder>", "SSD tier of the owner; implies --owner and --offload")
    .option("--offload", "SSD tier in a folder that is removed at the end; implies --owner")
    .option(
      "--staging <size>",
      "staging buffer of the SSD tier (Mooncake: 1280 MB)",
      sizeBytes("--staging"),
    )
    .option("--protocol <name>", "tcp or rdma", "tcp")
    .option("--device <name>", "RDMA device, for example mlx5_0", "")
    .option(
      "--master-flag <name=value>",
      "further flag of mooncake_master; may be repeated",
      flagValue,
    )
    .option("--config <file>", "write the store's JSON there too")
    .option("--detach", "return when it runs; `pool stop` ends it")
    .option("--json", "print the pool's addresses, processes and files too")
    .action(start);
}

function addTarget(command: Command): Command {
  return command
    .option(
      "--config <file>",
      "the store's JSON (default: MOONCAKE_CONFIG_PATH, else the pool that runs here)",
    )
    .option(
      "--metrics <host:port>",
      "the master's metrics address (default: known, or its host with port 9003)",
    );
}

function port(option: string): (text: string) => number {
  return wholeNumber(option, 0, 65_535);
}
