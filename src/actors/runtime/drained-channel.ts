import type { NativeBinding } from "../../native/binding.ts";
import { attachNativeChannel } from "../../store/native-channel.ts";
import type { ChannelPlan } from "../plan.ts";

const POLL_MS = 5;

/**
 * Takes the place of an actor that was given up at its engine channel, under the epoch after its last, and lets every batch
 * that is still in the engine come back; its results are nobody's. Calls `drained` when the engine touches none of the actor's
 * blocks any more: at once, or in a later turn of the event loop. With an engine that never answers it is never called, and
 * the blocks stay pinned. Returns what ends the wait.
 */
export function drainChannel(
  channel: ChannelPlan,
  native: NativeBinding,
  epoch: number,
  drained: () => void,
): () => void {
  const engine = attachNativeChannel({
    words: new Int32Array(channel.words),
    shape: channel.shape,
    binding: native,
    channelId: channel.channelId,
    epoch,
  });
  const drain = (): boolean => {
    for (let slot = engine.poll(); slot >= 0; slot = engine.poll()) engine.release(slot);
    return engine.inFlight() === 0;
  };
  if (drain()) {
    drained();
    return () => undefined;
  }
  const timer = setInterval(() => {
    if (!drain()) return;
    clearInterval(timer);
    drained();
  }, POLL_MS);
  return () => clearInterval(timer);
}
