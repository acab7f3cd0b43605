/**
 * What is done in the addon or for it: hashing against its TypeScript twin, the loader's building of a batch, and the local
 * engine's copies against a plain copy of the same bytes, and against the same engine in a process of its own.
 */
import { measureBatches } from "./lib/batch-figures.ts";
import { measureChild } from "./lib/child-figures.ts";
import { measureEngine } from "./lib/engine-figures.ts";
import { measureHashing } from "./lib/hash-figures.ts";
import { Report } from "./lib/report.ts";
import { loadNative } from "../src/native/load.ts";

const native = loadNative();
const report = new Report("native");
measureHashing(native, report);
measureBatches(native, report);
await measureEngine(native, report);
await measureChild(native, report);
report.close();
