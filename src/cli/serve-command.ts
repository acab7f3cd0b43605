import { type Command, Option } from "commander";
import type { HashAlgorithmName } from "../config/kv-cache-config.ts";
import { addAccessOptions, type AccessFlags } from "./access-flags.ts";
import { hashAlgorithmOption, sizeBytes, wholeNumber } from "./options.ts";

/** `mooncake-kv serve` */
export function addServeCommand(program: Command): void {
  const command = program
    .command("serve")
    .description(
      "serve a language model over an OpenAI-compatible HTTP interface, with a shared KV-cache pool",
    )
    .option(
      "--model <name>",
      "tiny (generated, no download), smollm2, or the path of a Llama-family GGUF file",
      "tiny",
    )
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on, 0 for any free one",
      wholeNumber("--port", 0, 65_535),
      8000,
    )
    .option("--kv-transfer-config <json>", "vLLM's KV-transfer configuration, as it is")
    .option("--kv-events-config <json>", "vLLM's configuration of KV events, as it is")
    .option(
      "--kv-memory <size>",
      "memory for KV blocks (default: 512mb, or what one request of full length needs)",
      sizeBytes("--kv-memory"),
    )
    .option(
      "--context-tokens-max <number>",
      "shorter context than the model's",
      wholeNumber("--context-tokens-max", 16, 1 << 20),
    )
    .option("--block-size <tokens>", "tokens a block", wholeNumber("--block-size", 1, 1024), 16)
    .option(
      "--sequences-max <number>",
      "requests that run at a time",
      wholeNumber("--sequences-max", 1, 1024),
      16,
    )
    .option(
      "--tokens-per-step-max <number>",
      "tokens computed in one step",
      wholeNumber("--tokens-per-step-max", 1, 65_536),
      512,
    )
    .option(
      "--request-slots <number>",
      "requests waiting or running",
      wholeNumber("--request-slots", 1, 65_536),
      1024,
    )
    .option(
      "--model-threads <number>",
      "threads of one model run",
      wholeNumber("--model-threads", 1, 256),
      1,
    )
    .addOption(hashAlgorithmOption())
    .option("--no-pool", "local prefix cache only")
    .option("--trace <file>", "write a Chrome trace (Perfetto opens it) until the server stops")
    .option("--record <folder>", "record all steps of all actors there, for a replay (slower)")
    .option("--debug-routes", "add POST /debug/drop_local_cache and GET /debug/state")
    .option("--admin", "POST /reset_prefix_cache on any address; on loopback it is always there")
    .option("--cache <folder>", "where downloaded and converted models are kept")
    .addOption(
      new Option("--log-level <level>", "how much is logged on standard error")
        .choices(["trace", "debug", "info", "warn", "error", "silent"])
        .default("info"),
    );
  addAccessOptions(command)
    // Loaded when it is asked for: HTTP server, model and actors cost every other command 0.3 s.
    .action(async (flags: ServeFlags) => (await import("./serve.ts")).serve(flags));
}

export interface ServeFlags extends AccessFlags {
  readonly model: string;
  readonly host: string;
  readonly port: number;
  readonly kvTransferConfig?: string;
  readonly kvEventsConfig?: string;
  readonly kvMemory?: number;
  readonly contextTokensMax?: number;
  readonly blockSize: number;
  readonly sequencesMax: number;
  readonly tokensPerStepMax: number;
  readonly requestSlots: number;
  readonly modelThreads: number;
  readonly pool: boolean;
  readonly prefixCachingHashAlgo: HashAlgorithmName;
  readonly trace?: string;
  readonly record?: string;
  readonly debugRoutes?: boolean;
  readonly admin?: boolean;
  readonly cache?: string;
  readonly logLevel: string;
}
