// Opens the engine of argv[2] (JSON) and ends with exit code 7 without closing it, as argv[3] says: "open" when it is open; "call" while a
// call is in it; "opening" while it is being set up; "closed" after it was closed; "natural" by itself; "worker" with a thread at work.
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { loadNative } from "../../../dist/native/load.js";

const [, , options, how] = process.argv;
const native = loadNative();
const engineId = native.engineOpen(JSON.parse(options));
const until = async (condition) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
};
if (how === "opening") await new Promise((resolve) => setTimeout(resolve, 1000));
else await until(() => native.engineState(engineId).state === "open");
if (how === "call") {
  native.engineCall(engineId, { operation: "getValue", key: "hangs" }, () => undefined);
  // As far as it goes: its late handler is registered.
  await until(() => readFileSync(process.env.FAKE_WHEEL_NOTES, "utf8").includes("late handler"));
}
if (how === "closed") native.engineClose(engineId, 15_000);
if (how === "worker") {
  const entry = new URL("second-thread.mjs", import.meta.url);
  const worker = new Worker(
    `import(${JSON.stringify(entry.href)}); setInterval(() => undefined, 10)`,
    { eval: true },
  );
  await new Promise((resolve) => worker.once("online", resolve));
}
process.stdout.write("bye\n");
if (how === "natural") process.exitCode = 7;
else process.exit(7);
