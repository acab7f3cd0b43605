/**
 * What a scheduling step costs without the model, in CPU time of its thread, and what requests that wait for the pool add.
 *
 * The scheduler, the connector, the tables, the mailboxes and the hasher are the real ones; model, lookup and saver are
 * stand-ins that run between the measured steps. A virtual clock moves by a fixed time a step.
 */
import { measureHooks } from "./lib/hook-figures.ts";
import { Report } from "./lib/report.ts";
import { measureParked, measureSteady } from "./lib/step-phases.ts";
import { measureWake } from "./lib/wake-figure.ts";
import { loadNative } from "../src/native/load.ts";

const native = loadNative();
const report = new Report("step");
measureParked(native, report);
measureSteady(native, report);
measureHooks(native, report);
await measureWake(native, report);
report.close();
