import { spawn } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { constants as osConstants } from "node:os";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** A failure that a person can act on: printed without a stack. */
export class StepFailure extends Error {}

/**
 * Seconds after which a step is stopped unless it says otherwise. They end what hangs, and never decide between a slow machine and a
 * fast one: the longest suite takes a tenth of them on two quiet cores.
 */
export const HANG_SECONDS = 5400;

/** Process groups that must not outlive this process. */
const running = new Set();

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    for (const child of running) killGroup(child);
    process.exit(128 + osConstants.signals[signal]);
  });
}

/**
 * Runs a command with a time limit. Its output is kept and shown only on failure; a line on standard error says what runs
 * and for how long. Resolves with {code, output, seconds}, code 124 after the time limit; throws StepFailure when the
 * command fails, unless `allowFailure`.
 */
export async function runStep(title, command, args, options = {}) {
  const { timeoutSeconds = HANG_SECONDS, allowFailure = false, cwd = root, env = {} } = options;
  const began = Date.now();
  const progress = startProgress(title, began);
  const chunks = [];
  const code = await runChild(command, args, {
    cwd,
    env,
    timeoutSeconds,
    stdio: ["ignore", "pipe", "pipe"],
    keep: (chunk) => chunks.push(chunk),
  });
  const output = Buffer.concat(chunks).toString("utf8");
  const seconds = secondsSince(began);
  progress.end(code === 0);
  if (code === 0 || allowFailure) {
    return {
      code,
      output: code === 124 ? `${output}\n${title}: stopped after ${timeoutSeconds} s\n` : output,
      seconds,
    };
  }
  process.stderr.write(output.slice(-20_000));
  throw new StepFailure(
    code === 124
      ? `${title}: took longer than ${timeoutSeconds} s`
      : `${title}: failed (exit code ${code})`,
  );
}

/** Runs a command that talks to the user itself, with a time limit. Resolves with its exit code. */
export async function runAttached(command, args, { timeoutSeconds = HANG_SECONDS, env = {} } = {}) {
  return runChild(command, args, { cwd: root, env, timeoutSeconds, stdio: "inherit", keep: null });
}

function runChild(command, args, { cwd, env, timeoutSeconds, stdio, keep }) {
  // A group of its own, so that the time limit also ends what the command has started.
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio,
    detached: true,
  });
  running.add(child);
  if (keep !== null) {
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
  }
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    killGroup(child);
  }, timeoutSeconds * 1000);
  return new Promise((resolve) => {
    const finish = (code) => {
      clearTimeout(timer);
      running.delete(child);
      resolve(timedOut ? 124 : code);
    };
    child.on("error", (error) => {
      keep?.(Buffer.from(`${error.message}\n`));
      finish(127);
    });
    child.on("close", (code, signal) => finish(code ?? 128 + (osConstants.signals[signal] ?? 0)));
  });
}

function killGroup(child) {
  try {
    process.kill(-child.pid, "SIGKILL");
  } catch {
    // It has ended by itself meanwhile.
  }
}

function startProgress(title, began) {
  const terminal = process.stderr.isTTY;
  const timer = setInterval(
    () =>
      process.stderr.write(
        `${terminal ? "\r" : ""}… ${title} (${secondsSince(began)} s)${terminal ? "" : "\n"}`,
      ),
    terminal ? 1000 : 30_000,
  );
  return {
    end(ok) {
      clearInterval(timer);
      process.stderr.write(
        `${terminal ? "\r\u001B[K" : ""}${ok ? "✓" : "✗"} ${title} (${secondsSince(began)} s)\n`,
      );
    },
  };
}

export function secondsSince(began) {
  return Math.round((Date.now() - began) / 100) / 10;
}

/** Full path of a program, or null. */
export function findProgram(name) {
  for (const folder of (process.env.PATH ?? "").split(":")) {
    const path = join(folder, name);
    if (folder !== "" && isProgram(path)) return path;
  }
  return null;
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Runs `main`; a StepFailure ends the process with its text and exit code 1. */
export async function runMain(main) {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof StepFailure)) throw error;
    process.stderr.write(`\n${error.message}\n`);
    process.exitCode = 1;
  }
}
