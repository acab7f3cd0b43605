import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";

/** Keeps every processor busy at the usual priority until the returned function is called. */
export function keepProcessorsBusy(): () => void {
  const loops = Array.from({ length: availableParallelism() }, () =>
    spawn("/bin/sh", ["-c", "while :; do :; done"], { stdio: "ignore" }),
  );
  return () => {
    for (const loop of loops) loop.kill("SIGKILL");
  };
}

/** What a process is started with that gets a processor only when nobody else wants it. */
export const STARVED = ["nice", "-n", "19"];
