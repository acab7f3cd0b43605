import { REQUEST_LOOKUP_WORD } from "../../blocks/layout.ts";
import { brokenInvariant } from "../../errors.ts";
import type { Logger } from "pino";
import type { Tables } from "../../blocks/tables.ts";
import type { NativeBinding } from "../../native/binding.ts";
import type { EngineChannel } from "../../store/engine.ts";
import type { ActorContext, RemoteLookups } from "../step.ts";
import { readMembership } from "../mismatch-words.ts";
import type { ActorThreadData } from "../plan.ts";
import type { ThreadEnds } from "./thread-ends.ts";
import { openThreadTrace } from "./thread-trace.ts";

export interface ThreadContext {
  readonly context: ActorContext;
  /** Takes the time for the next step; `context.nowMs()` stands still until the next call. */
  readonly tick: () => number;
}

/** What the thread has opened for its actor. */
export interface ThreadParts {
  /** null for actors without a channel. */
  readonly engine: EngineChannel | null;
  readonly logger: Logger;
  readonly remote: RemoteLookups | undefined;
}

/** What an actor on its own thread gets from outside. */
export function openThreadContext(
  data: ActorThreadData & { readonly epoch: number },
  ends: ThreadEnds,
  native: NativeBinding,
  { engine, logger, remote }: ThreadParts,
): ThreadContext {
  const { plan, actor, epoch } = data;
  const { requests } = ends.tables;
  const control = new Int32Array(plan.control);
  let nowMs = ends.nowMs();
  const context: ActorContext = {
    epoch,
    nowMs: () => nowMs,
    random: Math.random,
    log: logger,
    trace: openThreadTrace(plan, actor, epoch, native),
    get engine(): EngineChannel {
      return engine ?? brokenInvariant("actor without an engine channel", actor);
    },
    remoteLookups: remote,
    send: (receiver, message) => ends.outboxes.send(receiver, message),
    room: (receiver) => ends.outboxes.room(receiver),
    // Pairs with the lookup actor's publishing store.
    readLookup: (slot) => Atomics.load(requests, ends.tables.request(slot) + REQUEST_LOOKUP_WORD),
    readMembership: () => readMembership(control),
    waitLookup: lookupWait(ends.tables, ends.nowMs),
    hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) =>
      native.hashBlocks(plan.hasherId, tokenPage, hashPage, extrasPage, fromBlock, toBlock),
  };
  return { context, tick: () => (nowMs = ends.nowMs()) };
}

/** Blocks the thread until a lookup word changes; see ActorContext.waitLookup. */
function lookupWait(
  tables: Tables,
  monotonicMs: () => number,
): (slot: number, seenWord: number, timeoutMs: number) => number {
  return (slot, seenWord, timeoutMs) => {
    const deadlineMs = monotonicMs() + timeoutMs;
    // Pairs with the lookup actor's publishing store and notify.
    Atomics.wait(tables.requests, tables.request(slot) + REQUEST_LOOKUP_WORD, seenWord, timeoutMs);
    return Math.max(0, deadlineMs - monotonicMs());
  };
}
