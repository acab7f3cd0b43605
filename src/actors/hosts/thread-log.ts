import { pino, destination, type Logger } from "pino";
import { ACTOR_NAMES } from "../messages.ts";

/**
 * The calling thread's logger: pino with a synchronous destination on standard error, so that a line written just before a
 * thread dies is not lost and no transport thread per actor is needed.
 */
export function openThreadLog(actor: number, level: string): Logger {
  return pino(
    { name: "mooncake-kv", level, base: { actor: ACTOR_NAMES[actor] } },
    destination({ fd: 2, sync: true }),
  );
}
