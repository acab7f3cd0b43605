/** A serving loop without types at the connector's hooks. */
import { EmbeddedLoop } from "../../unit/embedded-loop.ts";
import type { Attempt, Target } from "../attack.ts";
import { mutateValue, WRONG_ARGUMENTS } from "../mutate.ts";

type Side = "scheduler" | "worker";
const STEP = {
  scheduled: [{ id: "one", numComputedTokens: 0, numScheduledTokens: 16, newBlockIds: [[3, 4]] }],
  preempted: ["none"],
  finished: ["none"],
};
const OPTIONS = {
  maxTokens: 4,
  cacheSalt: "salt",
  lora: { name: "a", path: "/a" },
  multiModal: [{ identifier: "image", offset: 0, length: 2 }],
  noReuse: false,
};
const CALLS: readonly (readonly [Side, string, readonly unknown[]])[] = [
  ["scheduler", "addRequest", ["two", [1, 2, 3], OPTIONS]],
  ["scheduler", "appendTokens", ["one", [7]]],
  ["scheduler", "getNumNewMatchedTokens", ["one", 0]],
  ["scheduler", "updateStateAfterAlloc", ["one", [[1, 2]], 0]],
  ["scheduler", "buildConnectorMeta", [STEP]],
  ["scheduler", "requestFinished", ["two", [[1, 2]], { states: [], numComputedTokens: 0 }]],
  ["scheduler", "outcome", ["one"]],
  ["scheduler", "updateConnectorOutput", [{ output: {} }]],
  ["worker", "startLoadKv", [{ loads: [1], loadCount: 1 }]],
  ["worker", "waitForSave", [{ saves: [1], saveCount: 1 }]],
  ["worker", "waitForLoads", [0]],
];
/** What one loop is put through before another takes its place. */
const CALLS_PER_LOOP = 256;

export const HOOKS: Target = {
  name: "hooks",
  open: () => {
    let loop = begin();
    let calls = 0;
    return {
      try: (random): Attempt => {
        if (calls++ % CALLS_PER_LOOP === 0) loop = begin();
        const [side, name, good] = random.pick(CALLS);
        const given = mutateValue(good, random, WRONG_ARGUMENTS);
        const list = Array.isArray(given) ? (given as unknown[]) : [given];
        const hooks = loop.connector[side] as unknown as Record<
          string,
          (...all: unknown[]) => unknown
        >;
        return { input: [name, ...list], bytes: 0, run: () => hooks[name]!(...list) };
      },
      heal: () => {
        const { scheduler, worker } = loop.connector;
        const metadata = scheduler.buildConnectorMeta({ scheduled: [] });
        worker.startLoadKv(metadata);
        worker.waitForSave(metadata);
        scheduler.updateConnectorOutput(worker.getFinished());
      },
    };
  },
};

function begin(): EmbeddedLoop {
  const loop = new EmbeddedLoop();
  loop.connector.scheduler.addRequest("one", [1, 2, 3], { maxTokens: 40 });
  return loop;
}
