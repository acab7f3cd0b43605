import { ENTRY_WORDS } from "../../../blocks/layout.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import {
  CALL_ACQUIRE,
  CALL_IN_FLIGHT,
  CALL_POLL,
  CALL_SUBMITTED,
  type RecordedCall,
  type RecordedOutput,
} from "./format.ts";

/** An engine channel whose answers and batches are recorded. */
export function recordChannel(
  channel: EngineChannel,
  call: (...values: RecordedCall) => void,
  output: (given: RecordedOutput) => void,
): EngineChannel {
  return {
    batchSlots: channel.batchSlots,
    keysPerBatchMax: channel.keysPerBatchMax,
    entries: (slot) => channel.entries(slot),
    results: (slot) => channel.results(slot),
    tiers: (slot) => channel.tiers(slot),
    status: (slot) => channel.status(slot),
    tag: (slot) => channel.tag(slot),
    job: (slot) => channel.job(slot),
    count: (slot) => channel.count(slot),
    operation: (slot) => channel.operation(slot),
    epoch: (slot) => channel.epoch(slot),
    microseconds: (slot) => channel.microseconds(slot),
    acquire() {
      const slot = channel.acquire();
      call(CALL_ACQUIRE, slot);
      return slot;
    },
    submit(slot, operation, keySpaceId, count, tag, job) {
      const entries = [...channel.entries(slot).subarray(0, count * ENTRY_WORDS)];
      output(["submit", slot, operation, keySpaceId, count, tag, job, entries]);
      channel.submit(slot, operation, keySpaceId, count, tag, job);
    },
    poll() {
      const slot = channel.poll();
      if (slot < 0) call(CALL_POLL, slot);
      else call(CALL_POLL, slot, ...completion(channel, slot));
      return slot;
    },
    release(slot) {
      output(["release", slot]);
      channel.release(slot);
    },
    inFlight() {
      const count = channel.inFlight();
      call(CALL_IN_FLIGHT, count);
      return count;
    },
    forEachSubmitted(visit) {
      const slots: number[] = [];
      channel.forEachSubmitted((slot) => slots.push(slot));
      call(
        CALL_SUBMITTED,
        ...slots.flatMap((slot) => [slot, channel.job(slot), channel.epoch(slot)]),
      );
      for (const slot of slots) visit(slot);
    },
  };
}

function completion(channel: EngineChannel, slot: number): number[] {
  const count = channel.count(slot);
  return [
    channel.status(slot),
    channel.tag(slot),
    channel.job(slot),
    count,
    channel.operation(slot),
    channel.epoch(slot),
    channel.microseconds(slot),
    ...channel.results(slot).subarray(0, count),
    ...channel.tiers(slot).subarray(0, count),
  ];
}
