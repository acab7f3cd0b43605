import type { Command } from "commander";

export interface AccessFlags {
  readonly apiKey?: readonly string[];
  readonly allowedOrigins?: readonly string[];
  readonly allowedHosts?: readonly string[];
}

/** One key; several are given with --api-key. */
export const API_KEY_VARIABLE = "MOONCAKE_KV_API_KEY";

/** Options of vLLM's names where it has them. */
export function addAccessOptions(command: Command): Command {
  return command
    .option(
      "--api-key <keys...>",
      `keys of which requests must show one as "Authorization: Bearer KEY"; ${API_KEY_VARIABLE} for one that no process list shows`,
    )
    .option(
      "--allowed-origins <origins...>",
      "web pages that may use the server from a browser, such as http://localhost:3000; * for any",
    )
    .option(
      "--allowed-hosts <hosts...>",
      "names under which a reverse proxy is asked; * for any (on loopback only its own names are known)",
    );
}
