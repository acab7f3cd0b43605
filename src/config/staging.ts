import type { StagingSettings } from "./connector-config.ts";
import type { ConnectorEnvironment } from "./environment.ts";
import type { StoreConfig } from "./store-config.ts";

/** vLLM's idea of an owner's staging buffer, which is Mooncake's default. */
const STAGING_BUFFER_BYTES = 1280 * 1024 * 1024;

/**
 * What loads keep to with this store: null without `enable_offload`. vLLM always reckons with the default buffer; where the owner's
 * own variable MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES is set in this process too (one host, one shell set-up), it is that size.
 */
export function stagingSettings(
  store: Pick<StoreConfig, "enableOffload">,
  environment: Pick<
    ConnectorEnvironment,
    "offloadBufferBytes" | "diskStagingUsableRatio" | "loadReceiveThreads"
  >,
): StagingSettings | null {
  if (!store.enableOffload) return null;
  return {
    bufferBytes: environment.offloadBufferBytes ?? STAGING_BUFFER_BYTES,
    usableRatio: environment.diskStagingUsableRatio,
    readsMax: environment.loadReceiveThreads,
  };
}
