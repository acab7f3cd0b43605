import type { EngineChannel } from "../../../store/engine.ts";
import type { ActorContext } from "../../step.ts";
import { MortalChannel } from "./mortal-channel.ts";

/** The simulated host gives no more: nobody else answers lookups, and its one thread may not wait. */
export type SimulatedContext = Omit<ActorContext, "remoteLookups" | "waitLookup">;

/** A context whose calls that others see are places where its actor may die; see `SimulatedHost.armDeath`. */
export function mortalContext(context: SimulatedContext, countCall: () => void): ActorContext {
  let engine: EngineChannel | undefined;
  const { readMembership } = context;
  return {
    epoch: context.epoch,
    nowMs: () => context.nowMs(),
    random: () => context.random(),
    log: context.log,
    trace: {
      record: (event, slot, generation, first, second) => {
        countCall();
        context.trace.record(event, slot, generation, first, second);
      },
    },
    get engine(): EngineChannel {
      engine ??= new MortalChannel(context.engine, countCall);
      return engine;
    },
    send: (to, message) => {
      countCall();
      context.send(to, message);
    },
    ...(readMembership === undefined ? {} : { readMembership }),
    room: (to) => context.room(to),
    readLookup: (slot) => context.readLookup(slot),
    hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) => {
      countCall();
      return context.hashBlocks(tokenPage, hashPage, extrasPage, fromBlock, toBlock);
    },
  };
}
