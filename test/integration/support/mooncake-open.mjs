// Opens the engine of argv[2] (JSON), waits until it is open, has failed or is as argv[3] says, and prints {state, error, lines, result}: its status and what
// Mooncake logged; with argv[3] "put" it puts one block
// when the engine is open, and prints its result too. A process of its own, because a process has one interpreter for good.
import * as layout from "../../../dist/blocks/layout.js";
import { Actor } from "../native-actor.mjs";
import { loadNative } from "../../../dist/native/load.js";
import { followWheelLog } from "../../../dist/store/mooncake/wheel-log.js";

const native = loadNative();
const lines = [];
const level = (name) => (fields, text) => lines.push({ level: name, text, ...fields });
const end = followWheelLog(native, {
  info: level("info"),
  warn: level("warn"),
  error: level("error"),
});
const engineId = native.engineOpen(JSON.parse(process.argv[2]));
const give = performance.now() + 20_000;
const ends = ["open", "failed", process.argv[3]];
while (!ends.includes(native.engineState(engineId).state) && performance.now() < give)
  await new Promise((resolve) => setTimeout(resolve, 20));
let result = null;
if (process.argv[3] === "put" && native.engineState(engineId).state === "open") {
  const hashes = new Int32Array(new SharedArrayBuffer(layout.HASH_PAGE_WORDS * 4));
  const hashesSharedId = native.sharedRegister(new Uint8Array(hashes.buffer));
  const regionId = native.regionCreate(4096 * 16);
  const keySpaceId = native.keySpaceRegister({
    hashesSharedId,
    hashBytes: 32,
    prefixes: ["m"],
    groups: [[{ regionId, offset: 0, strideBytes: 4096, bytes: 4096 }]],
    blockCount: 16,
  });
  native.engineUseKeySpace(engineId, keySpaceId);
  const world = { engineId, keySpaceId, hashesSharedId, regionId, hashes };
  const actor = new Actor(native, layout, { ...world, blockBytes: 4096, blockCount: 16 });
  [result] = await actor.run(layout.OPERATION_PUT, [[0, 0]]);
  actor.close();
}
const { state, error } = native.engineState(engineId);
if (state === "open" && process.argv[3] === "miss")
  await new Promise((resolve) => {
    // An absent key is an error to the wheel's log.
    const kept = setInterval(() => undefined, 1000);
    native.engineCall(engineId, { operation: "getValue", key: "absent" }, () => {
      clearInterval(kept);
      resolve();
    });
  });
native.engineClose(engineId, 15_000);
end();
process.stdout.write(JSON.stringify({ state, error, lines, result }));
