import { END_OF_REPLAY, sequenceBytes, sequenceOf } from "./sequence.ts";
import type { ReplayBuffer } from "./replay-buffer.ts";
import type { RouterSocket } from "./zeromq.ts";

/** Batches that are sent before other work of the thread gets its turn. */
const BATCHES_PER_TURN = 64;

export interface ReplayCounters {
  requests: number;
  batches: number;
  invalidRequests: number;
}

/**
 * Answers subscribers that have missed batches: [identity, empty, first sequence number] is answered by one message
 * [identity, empty, topic, sequence number, payload] for each batch of the buffer from there on, and by one with sequence number -1.
 * A question of another shape is counted and gets no answer, as in vLLM. Ends when the socket is closed.
 */
export async function serveReplays(
  router: RouterSocket,
  buffer: ReplayBuffer,
  topic: Uint8Array,
  counters: ReplayCounters,
): Promise<void> {
  for await (const [identity, empty, start, ...more] of router) {
    const first = start === undefined || more.length > 0 ? null : sequenceOf(start);
    if (identity === undefined || empty === undefined || first === null) {
      counters.invalidRequests++;
      continue;
    }
    counters.requests++;
    let sent = 0;
    for (const { sequence, payload } of buffer.from(first)) {
      // Without "mandatory" a message to a subscriber that is gone or hopelessly slow is dropped; it never blocks.
      await router.send([identity, EMPTY, topic, sequenceBytes(sequence), payload]);
      counters.batches++;
      if (++sent % BATCHES_PER_TURN === 0) await new Promise(setImmediate);
      if (router.closed) return;
    }
    await router.send([identity, EMPTY, EMPTY, END_OF_REPLAY, EMPTY]);
  }
}

const EMPTY = new Uint8Array(0);
