import { networkInterfaces } from "node:os";
import type { ConnectorEnvironment } from "../config/environment.ts";
import { parseKvEventsConfig } from "../config/kv-events-config.ts";
import type { KvEventsConfig } from "../config/kv-events-config.ts";
import type { ConfigWarning } from "../config/warnings.ts";
import { firstHostAddress } from "./endpoints.ts";
import { KvEventPublisher } from "./publisher.ts";
import type { PublisherOptions } from "./publisher.ts";

/** How KV events are made and published: vLLM's configuration with vLLM's environment variables. */
export interface KvEventSettings {
  readonly config: KvEventsConfig;
  readonly integerHashes: boolean;
  /** Address of this machine for others. */
  readonly hostAddress: () => string;
}

export interface KvEventSettingsRead {
  readonly settings: KvEventSettings;
  readonly warnings: readonly ConfigWarning[];
}

/** `given`: JSON text or object, absent for no events. Throws as `parseKvEventsConfig`. */
export function readKvEventSettings(
  given: unknown,
  environment: ConnectorEnvironment,
): KvEventSettingsRead {
  const { config, warnings } = parseKvEventsConfig(given);
  const { kvEventIntegerHashes: integerHashes, hostAddress } = environment;
  return {
    settings: {
      config,
      integerHashes,
      hostAddress: () => hostAddress ?? firstHostAddress(networkInterfaces()),
    },
    warnings,
  };
}

/** null when these settings publish nothing. The clock defaults to the system's. Throws as `KvEventPublisher.open`. */
export async function openPublisher(
  { config, hostAddress }: KvEventSettings,
  options: Pick<PublisherOptions, "dataParallelRank" | "log"> &
    Partial<Pick<PublisherOptions, "wallClockMs">>,
): Promise<KvEventPublisher | null> {
  if (!config.enabled || config.publisher === "null") return null;
  return await KvEventPublisher.open({ config, hostAddress, wallClockMs: Date.now, ...options });
}
