/**
 * Goal: what README.md shows runs from the package as a user gets it, without the optional parts, and its types resolve.
 * Method: `npm pack`, an installation in an empty folder, the README's own snippet, a small TypeScript consumer.
 */
import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { packageRoot } from "../../src/worker-entry.ts";

const execute = promisify(execFile);
const SNIPPET_LINES_MAX = 40;

let folder: string;
let installed: string;
let packed: readonly string[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "package-"));
  // The build is fresh here: the package is made of it as it is.
  const { stdout } = await execute(
    "npm",
    ["pack", "--ignore-scripts", "--json", "--pack-destination", folder],
    { cwd: packageRoot(), maxBuffer: 1 << 26 },
  );
  const summary: unknown = JSON.parse(stdout);
  packed = filesOf(summary);
  const archive = readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "none";
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "user", type: "module" }));
  await execute(
    "npm",
    ["install", "--omit=optional", "--omit=dev", "--no-audit", "--no-fund", join(folder, archive)],
    { cwd: folder },
  );
  installed = join(folder, "node_modules", "mooncake-kv");
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** `npm pack --json` prints a list of packages, or (later versions) an object of them by name. */
function filesOf(summary: unknown): string[] {
  const [first] = Object.values(summary as Record<string, { files: { path: string }[] }>);
  return (first?.files ?? []).map(({ path }) => path);
}

test("the README's loop takes the second request's prefix from the pool", async () => {
  const readme = readFileSync(join(packageRoot(), "README.md"), "utf8");
  const snippets = [...readme.matchAll(/^```js\n([^]*?)^```$/gm)].map((match) => match[1] ?? "");
  expect(snippets).toHaveLength(1);
  const [snippet = ""] = snippets;
  expect(snippet.trimEnd().split("\n").length).toBeLessThanOrEqual(SNIPPET_LINES_MAX);
  writeFileSync(join(folder, "snippet.mjs"), snippet);
  const { stdout } = await execute(process.execPath, ["snippet.mjs"], { cwd: folder });
  expect(stdout).toContain("{ id: 'first', fromPool: 0, computed: 40 }");
  expect(stdout).toContain("{ id: 'second', fromPool: 32, computed: 8 }");
});

test("none of the optional parts is there, and `serve` names the first that it misses", async () => {
  for (const name of ["onnxruntime-node", "fastify", "zeromq"])
    expect(existsSync(join(folder, "node_modules", name)), name).toBe(false);
  const cli = join(folder, "node_modules", ".bin", "mooncake-kv");
  const { stdout } = await execute(cli, ["--version"], { cwd: folder });
  expect(stdout.trim()).toMatch(/^\d+\.\d+\.\d+$/);
  await expect(execute(cli, ["serve", "--port", "0"], { cwd: folder })).rejects.toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringMatching(/(onnxruntime-node|fastify).*npm install/s) as string,
  });
});

test("the package holds what runs and what builds the addon, and nothing of the workshop", () => {
  for (const path of [
    "dist/index.js",
    "dist/index.d.ts",
    "dist/cli/main.js",
    "dist/actors/hosts/actor-thread.js",
    `prebuilds/linux-${process.arch}/mooncake-kv.node`,
    "scripts/install-addon.mjs",
    "scripts/build-native.mjs",
    "LICENSE",
    "README.md",
  ])
    expect(packed).toContain(path);
  expect(packed.filter((path) => /(^|\/)CMakeLists\.txt$/.test(path))).not.toEqual([]);
  expect(
    packed.filter((path) => /^(src|test|bench|node_modules|build|\.cache)\//.test(path)),
  ).toEqual([]);
});

test("every file that the packed scripts and modules import is packed too", () => {
  const missing: string[] = [];
  for (const path of packed.filter((each) => /\.(m?js|d\.ts)$/.test(each))) {
    const text = readFileSync(join(installed, path), "utf8");
    for (const [, target = ""] of text.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]*)"/g)) {
      const at = join(dirname(path), target);
      const declared = path.endsWith(".d.ts") ? at.replace(/\.(js|ts)$/, ".d.ts") : at;
      if (!existsSync(join(installed, at)) && !existsSync(join(installed, declared)))
        missing.push(`${path} -> ${target}`);
    }
  }
  expect(missing).toEqual([]);
});

test("its types resolve under nodenext, and refuse what is wrong", async () => {
  const consumer = (line: string): string => `
import { attachConnector, MooncakeKvError } from "mooncake-kv";
import type { AttachedConnector, BlockPool, FinishedTransfers } from "mooncake-kv";

const blockPool: BlockPool = { pin: () => undefined, unpin: () => undefined };
const attached: AttachedConnector = await attachConnector({
  kvCache: { modelName: "m", dtype: "float16", blockSize: 16, blockCount: 8,
    groups: [{ kind: "full", layers: 1 }], heads: { kvHeads: 1, headSize: 16 } },
  blockPool,
});
const { scheduler, worker } = attached.connector;
const [tokens, loadsLater] = scheduler.getNumNewMatchedTokens("a", 0);
const done: FinishedTransfers = worker.getFinished();
${line}
export const sum: number = (tokens ?? 0) + done.invalidBlockIds.length + (await attached.stop());
export const known = (error: unknown): boolean =>
  error instanceof MooncakeKvError && error.code === "CAPACITY" && loadsLater;
`;
  writeFileSync(join(folder, "right.ts"), consumer(""));
  writeFileSync(
    join(folder, "wrong.ts"),
    consumer("const wrong: string = loadsLater; void wrong;"),
  );
  const compile = (file: string): Promise<{ stdout: string }> =>
    execute(
      join(packageRoot(), "node_modules", ".bin", "tsc"),
      ["--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", file],
      { cwd: folder },
    );
  expect((await compile("right.ts")).stdout).toBe("");
  await expect(compile("wrong.ts")).rejects.toMatchObject({
    stdout: expect.stringContaining("TS2322") as string,
  });
});
