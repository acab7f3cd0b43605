import { pino, destination } from "pino";
import { ACTOR_NAMES } from "../messages.ts";
import type { Log } from "../step.ts";

/**
 * The calling thread's logger: pino with a synchronous destination on standard error, so that a line written just before a
 * thread dies is not lost and no transport thread per actor is needed.
 */
export function openThreadLog(actor: number, level: string): Log {
  const logger = pino(
    { name: "mooncake-kv", level, base: { actor: ACTOR_NAMES[actor] } },
    destination({ fd: 2, sync: true }),
  );
  return logger;
}
