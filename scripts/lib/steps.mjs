import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** A failure that a person can act on: printed without a stack. */
export class StepFailure extends Error {}

/**
 * Runs a command with a time limit. Its output is kept and shown only on failure (or at once when `show` is set); a line on
 * standard error says what runs and for how long. Resolves with {code, output}; throws StepFailure unless `allowFailure`.
 */
export async function runStep(title, command, args, options = {}) {
  const { timeoutSeconds = 600, show = false, allowFailure = false, cwd = root, env = {} } = options;
  const began = Date.now();
  const child = spawn(command, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const chunks = [];
  const keep = (chunk) => {
    chunks.push(chunk);
    if (show) process.stderr.write(chunk);
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  const progress = process.stderr.isTTY
    ? setInterval(() => process.stderr.write(`\r${title} … ${seconds(began)} s `), 1000)
    : setInterval(() => process.stderr.write(`${title} … ${seconds(began)} s\n`), 30_000);
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself meanwhile.
    }
  }, timeoutSeconds * 1000);
  const code = await new Promise((resolve) => {
    child.on("error", (error) => {
      chunks.push(Buffer.from(String(error)));
      resolve(127);
    });
    child.on("close", (exitCode, signal) => resolve(exitCode ?? (signal === null ? 1 : 128)));
  });
  clearTimeout(timer);
  clearInterval(progress);
  const output = Buffer.concat(chunks).toString("utf8");
  const ok = code === 0 && !timedOut;
  if (process.stderr.isTTY) process.stderr.write("\r");
  process.stderr.write(`${ok ? "✓" : "✗"} ${title} (${seconds(began)} s)\n`);
  if (ok || allowFailure) return { code: timedOut ? 124 : code, output, seconds: seconds(began) };
  if (!show) process.stderr.write(output.slice(-20_000));
  throw new StepFailure(timedOut ? `${title}: took longer than ${timeoutSeconds} s` : `${title}: failed (exit code ${code})`);
}

function seconds(began) {
  return Math.round((Date.now() - began) / 100) / 10;
}

/** Full path of a program, or null. */
export function findProgram(name) {
  for (const folder of (process.env.PATH ?? "").split(":")) {
    const path = join(folder, name);
    if (folder !== "" && existsSync(path)) return path;
  }
  return null;
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
