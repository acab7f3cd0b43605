import { isEndOfReplay, sequenceBytes, sequenceOf } from "./sequence.ts";
import type { DealerSocket, Zeromq } from "./zeromq.ts";

export interface ReplayedBatch {
  readonly sequence: number;
  readonly payload: Uint8Array;
}

/**
 * Asks a publisher for its batches from `start` on. Ends with the end of the replay, when nothing comes for `timeoutMs`, or when the
 * caller has seen enough. Reads the answers of vLLM and those of its older versions, which leave the topic out.
 */
export async function* requestReplay(
  zeromq: Zeromq,
  endpoint: string,
  start: number,
  timeoutMs: number,
): AsyncGenerator<ReplayedBatch> {
  const dealer = new zeromq.Dealer({
    receiveTimeout: timeoutMs,
    sendTimeout: timeoutMs,
    receiveHighWaterMark: 0,
    linger: 0,
  });
  try {
    if (endpoint.includes("[")) dealer.ipv6 = true;
    dealer.connect(endpoint);
    if (!(await sent(dealer, [new Uint8Array(0), sequenceBytes(start)]))) return;
    for (;;) {
      const frames = await received(dealer);
      if (frames === null) return;
      const [sequenceFrame, payload] = frames.slice(-2);
      if (sequenceFrame === undefined || payload === undefined) continue;
      if (isEndOfReplay(sequenceFrame)) return;
      const sequence = sequenceOf(sequenceFrame);
      if (sequence !== null) yield { sequence, payload };
    }
  } finally {
    dealer.close();
  }
}

/** False: nobody is there. */
async function sent(dealer: DealerSocket, frames: Uint8Array[]): Promise<boolean> {
  try {
    await dealer.send(frames);
    return true;
  } catch (error) {
    if (isTimeout(error)) return false;
    throw error;
  }
}

/** null: nothing came in time. */
async function received(dealer: DealerSocket): Promise<readonly Uint8Array[] | null> {
  try {
    return await dealer.receive();
  } catch (error) {
    if (isTimeout(error)) return null;
    throw error;
  }
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EAGAIN";
}
