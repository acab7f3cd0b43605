import type { AttachOptions } from "../../../src/index.ts";
import { EmbeddedLoop } from "./embedded.ts";

/** A serving loop of this process as member of the pool that the store's JSON names; lookups and loads may take their time. */
export function attachToPool(
  storePath: string,
  options: Partial<AttachOptions> = {},
  extra: Readonly<Record<string, unknown>> = {},
): Promise<EmbeddedLoop> {
  const { environment, ...rest } = options;
  return EmbeddedLoop.attach(
    { engine: "mooncake", lookup_async: true, lookup_timeout_ms: 30_000, ...extra },
    {
      environment: {
        PATH: process.env["PATH"],
        MOONCAKE_PYTHON: process.env["MOONCAKE_PYTHON"],
        MOONCAKE_CONFIG_PATH: storePath,
        MOONCAKE_REQUESTER_LOCAL_HOSTNAME: "127.0.0.1",
        ...environment,
      },
      ...rest,
    },
  );
}

/** Adds a request and looks it up; returns how many tokens the pool has. Until they are taken, no step may come between. */
export function look(loop: EmbeddedLoop, id: string, prompt: readonly number[]): number {
  loop.attached.connector.scheduler.addRequest(id, prompt);
  return loop.match(id)[0];
}

/** Takes what was found into these blocks; returns how many tokens arrived. */
export function take(
  loop: EmbeddedLoop,
  id: string,
  found: number,
  blocks: readonly number[],
): number {
  loop.attached.connector.scheduler.updateStateAfterAlloc(id, [blocks], found);
  if (found === 0) return 0;
  const { failedLoads } = loop.stepUntil(({ finishedRecving }) => finishedRecving.includes(id));
  return failedLoads.find((each) => each.id === id)?.keptTokens ?? found;
}

/** `look` and `take`: how many tokens were found and how many arrived. */
export function loadInto(
  loop: EmbeddedLoop,
  id: string,
  prompt: readonly number[],
  blocks: readonly number[],
): { readonly found: number; readonly kept: number } {
  const found = look(loop, id, prompt);
  return { found, kept: take(loop, id, found, blocks) };
}

/** Ends a request and waits until nothing of it is left. */
export function endRequest(loop: EmbeddedLoop, id: string): void {
  loop.attached.connector.scheduler.requestFinished(id);
  loop.stepUntil(() => loop.attached.connector.idle());
}

/** Computes a prompt into these blocks, whose bytes are there already, saves it and ends the request. */
export function saveFrom(
  loop: EmbeddedLoop,
  id: string,
  prompt: readonly number[],
  blocks: readonly number[],
): void {
  const { scheduler } = loop.attached.connector;
  scheduler.addRequest(id, prompt);
  loop.match(id);
  scheduler.updateStateAfterAlloc(id, [blocks], 0);
  const whole = { numComputedTokens: 0, numScheduledTokens: prompt.length, newBlockIds: null };
  loop.step([{ id, ...whole }]);
  scheduler.requestFinished(id, [blocks]);
  loop.stepUntil(() => loop.attached.connector.idle());
}
