// Opens the engine of argv[2] (JSON), waits until it is open, has failed or is as argv[3] says, and prints {state, error, lines}: its status and what
// Mooncake logged; with argv[3] "register" it names KV memory before the engine is open. A process of its own, because a process has one interpreter for good.
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
if (process.argv[3] === "register") {
  const regionId = native.regionCreate(65_536);
  const hashesSharedId = native.sharedRegister(new Uint8Array(new SharedArrayBuffer(65_536)));
  const segment = { regionId, offset: 0, strideBytes: 4096, bytes: 4096 };
  const space = { hashesSharedId, hashBytes: 32, prefixes: ["m"], groups: [[segment]] };
  native.engineUseKeySpace(engineId, native.keySpaceRegister({ ...space, blockCount: 16 }));
}
const give = performance.now() + 20_000;
const ends = ["open", "failed", process.argv[3]];
while (!ends.includes(native.engineState(engineId).state) && performance.now() < give)
  await new Promise((resolve) => setTimeout(resolve, 20));
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
process.stdout.write(JSON.stringify({ state, error, lines }));
