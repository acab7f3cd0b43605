/**
 * Goal: the commands of the guide do what it says, in the order in which it shows them: a real master, owner and servers, with
 * prefixes that one server computes and another loads.
 * Method: every block with a marker runs in bash in an empty folder with the package and the wheel on its path, as in a user's
 * project; ports are replaced by free ones, nothing else is.
 */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../src/pool/ports.ts";
import { packageRoot } from "../../src/worker-entry.ts";
import { GUIDES, readGuide } from "./support/guide.ts";
import { GuideShell } from "./support/guide-shell.ts";
import { testWheel } from "./support/mooncake-wheel.ts";

/** Every port that a block names. */
const PORTS = ["50051", "50052", "50053", "9003", "8000", "8001", "5557", "5558"];
const BLOCKS_TIMEOUT_MS = 600_000;

let folder: string;
let shell: GuideShell;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "guide-commands-"));
  const bin = join(folder, "node_modules", ".bin");
  mkdirSync(bin, { recursive: true });
  symlinkSync(packageRoot(), join(folder, "node_modules", "mooncake-kv"));
  symlinkSync(join("..", "mooncake-kv", "dist", "cli", "main.js"), join(bin, "mooncake-kv"));
  const { path: python } = await testWheel();
  symlinkSync(dirname(dirname(python)), join(folder, ".venv"));
  const ports = new Map<string, string>();
  for (const port of PORTS) ports.set(port, String(await freePort()));
  const state = join(folder, "state");
  shell = new GuideShell({
    folder,
    ports,
    environment: {
      PATH: `${join(folder, ".venv", "bin")}:${process.env["PATH"] ?? ""}`,
      HOME: folder,
      MOONCAKE_KV_STATE: state,
    },
  });
});
afterAll(async () => {
  await shell.stop();
  // A pool that was detached and not stopped, because a block before failed.
  await shell.end("npx mooncake-kv pool stop --all");
  rmSync(folder, { recursive: true, force: true });
});

test(
  "all marked blocks run, one after the other",
  async () => {
    let ran = 0;
    for (const { blocks } of readGuide(GUIDES[0])) {
      for (const { action, text, line } of blocks) {
        if (action === null) continue;
        if (action.kind === "stop") await shell.stop();
        else if (action.kind === "file")
          writeFileSync(join(folder, action.name), shell.local(text));
        else if (action.kind === "start") await shell.start(text, action.prints, line);
        else await shell.run(text, action.prints, line);
        ran++;
      }
    }
    expect(ran).toBeGreaterThan(20);
    expect(shell.running()).toBe(0);
  },
  BLOCKS_TIMEOUT_MS,
);
