import type { MessagePort } from "node:worker_threads";
import type { Logger } from "pino";
import { brokenInvariant, MooncakeKvError } from "../../errors.ts";
import type { Actor, ActorInspection } from "../step.ts";
import { serveControl } from "./actor-control.ts";

export interface ThreadControlParts {
  readonly port: MessagePort;
  readonly actor: Actor;
  readonly logger: Logger;
  /** Starts a turn of the host; it may throw what the actor throws. */
  readonly wake: () => void;
  readonly nowMs: () => number;
}

/** Serves control calls for the actor of the calling thread. */
export function serveThreadControl(parts: ThreadControlParts): void {
  const { port, actor, logger, wake, nowMs } = parts;
  const inspect = (): ActorInspection =>
    actor.inspect?.(nowMs()) ?? brokenInvariant("an actor without inspect() has a control port");
  serveControl(port, {
    setLogLevel: (level) => setLogLevel(logger, level),
    counters: () => inspect().counters,
    // Not within the call: a broken invariant must end the thread, and not become an answer.
    step: () => void setImmediate(wake),
    inspect,
  });
}

/** Throws INVALID_VALUE for a level that pino does not have. */
export function setLogLevel(logger: Logger, level: string): void {
  const levels = [...Object.keys(logger.levels.values), "silent"];
  if (levels.includes(level)) {
    logger.level = level;
    return;
  }
  throw new MooncakeKvError({
    code: "INVALID_VALUE",
    field: "level",
    value: level,
    problem: "no such log level",
    remedy: `Give one of ${levels.join(", ")}.`,
  });
}
