/**
 * mooncake-kv: the shared KV-cache pool for TypeScript serving loops. Public exports only.
 */
export { attachConnector } from "./actors/runtime/attach.ts";
export type { AttachOptions } from "./actors/runtime/attach.ts";
export type { AttachedConnector, ConnectorEvents } from "./actors/runtime/attached-connector.ts";
export type { BlockSegment, UserKvMemory, UserKvStorages } from "./actors/runtime/kv-memory.ts";
export type { KvTensor } from "./keys/segments.ts";
export type { MembershipStatus } from "./actors/runtime/identity-check.ts";
export type { IdentityDifference } from "./connector/identity/compare.ts";
export type { ResetAnswer, ResetOptions } from "./connector/reset-answer.ts";
export type { MembershipName } from "./connector/membership.ts";
export type { ActorDump, StateDump } from "./actors/runtime/state-dump.ts";
export type { Log } from "./actors/step.ts";
export type { ConnectorConfig, KvRole, LoadFailurePolicy } from "./config/connector-config.ts";
export type {
  KvCacheConfig,
  KvCacheConfigInput,
  KvDtype,
  KvLayout,
  Rank,
} from "./config/kv-cache-config.ts";
export type {
  AddRequestOptions,
  BlockIdsPerGroup,
  Connector,
  ConnectorGauges,
  FailedLoad,
  FinalStates,
  FinishedTransfers,
  PromptEmbeddings,
  ScheduledRequest,
  SchedulerStep,
} from "./connector/connector.ts";
export type {
  AllBlocksCleared,
  BlockRemoved,
  BlockStored,
  ExternalBlockHash,
  KvEvent,
  KvEventBatch,
} from "./events/kv-events.ts";
export { KvEventSubscriber } from "./events/subscriber.ts";
export type { KvEventMessage, SubscriberOptions } from "./events/subscriber.ts";
export type {
  BlockPool,
  BoundaryState,
  ConnectorMetadata,
  ConnectorOutput,
} from "./connector/hooks.ts";
export type { LoraAdapter, MultiModalItem } from "./keys/block-extra.ts";
export { MooncakeKvError } from "./errors.ts";
export type { ErrorCode } from "./errors.ts";
