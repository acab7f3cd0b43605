import type { NativeBinding } from "../../native/binding.ts";

/** The part of a pino log that is needed here. */
export interface WheelLogTarget {
  info(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  error(fields: object, text: string): void;
}

const LINES_A_TURN = 256;

/** Who takes the lines: the last runtime of this thread that asked for them. */
let taker = -1;

/**
 * Writes what Mooncake logs (glog) to `log`, at its level, from the calling thread's event loop, which it does not keep alive. Lines
 * of before are written too. Of several callers the last one gets the lines; returns what ends it.
 */
export function followWheelLog(
  native: Pick<
    NativeBinding,
    "wakeReserve" | "wakeOpen" | "wakeClose" | "wheelLogWake" | "wheelLogTake"
  >,
  log: WheelLogTarget,
): () => void {
  const write = (): void => {
    for (;;) {
      const lines = native.wheelLogTake(LINES_A_TURN);
      for (const { severity, source, text } of lines) {
        const fields = { mooncake: source };
        if (severity === 0) log.info(fields, text);
        else if (severity === 1) log.warn(fields, text);
        else log.error(fields, text);
      }
      if (lines.length < LINES_A_TURN) return;
    }
  };
  const wakeId = native.wakeReserve();
  native.wakeOpen(wakeId, write, false);
  taker = wakeId;
  native.wheelLogWake(wakeId);
  write();
  return () => {
    if (taker === wakeId) {
      native.wheelLogWake(-1);
      write();
    }
    native.wakeClose(wakeId);
  };
}
