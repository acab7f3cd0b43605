import type { EngineChannel } from "../../../store/engine.ts";
import type { ActorContext } from "../../step.ts";
import type { Lifetime } from "./lifetime.ts";
import { MortalChannel } from "./mortal-channel.ts";

/** The simulated host gives no more: nobody else answers lookups, and its one thread may not wait. */
export type SimulatedContext = Omit<ActorContext, "remoteLookups" | "waitLookup">;

/** A context whose calls that others see are places where its actor may die; see `SimulatedHost.armDeath`. */
export function mortalContext(context: SimulatedContext, lifetime: Lifetime): ActorContext {
  let engine: EngineChannel | undefined;
  const { readMembership } = context;
  return {
    epoch: context.epoch,
    nowMs: () => context.nowMs(),
    random: () => context.random(),
    log: context.log,
    trace: {
      record: (event, slot, generation, first, second) => {
        lifetime.pass();
        lifetime.outside(() => context.trace.record(event, slot, generation, first, second));
      },
    },
    get engine(): EngineChannel {
      engine ??= new MortalChannel(context.engine, lifetime.pass);
      return engine;
    },
    send: (to, message) => {
      lifetime.pass();
      lifetime.outside(() => context.send(to, message));
    },
    ...(readMembership === undefined ? {} : { readMembership }),
    room: (to) => lifetime.outside(() => context.room(to)),
    readLookup: (slot) => lifetime.outside(() => context.readLookup(slot)),
    hashBlocks: (tokenPage, hashPage, extrasPage, fromBlock, toBlock) => {
      lifetime.pass();
      return lifetime.outside(() =>
        context.hashBlocks(tokenPage, hashPage, extrasPage, fromBlock, toBlock),
      );
    },
  };
}
