/**
 * Replays of vLLM's real scheduler through the scheduler side's hooks. Our own limits are set to vLLM's behaviour (an answer is
 * used once, a failed load may be tried again, far more blocks than quarantine minds): their defaults have tests of their own.
 */
import { replay } from "../../scheduler-trace-driver.ts";
import type { SchedulerTrace } from "../../scheduler-trace-driver.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

export const schedulerTraces: VectorKind = {
  name: "scheduler_traces",
  run(contents) {
    const { traces } = contents as { traces: SchedulerTrace[] };
    const report = new Cases();
    traces.forEach((trace, index) =>
      report.run(`trace ${index} ${JSON.stringify(trace.config)}`, (check) => {
        const compared = replay(trace);
        check.equal("differences", compared.differences, []);
        check.equal("calls", compared.calls, trace.calls.length);
        check.equal("saves", compared.saves, compared.savesWanted);
      }),
    );
    return report;
  },
};
