/**
 * Goal: what is no regular file or folder is refused by what it is, at once, wherever a person names a path; folders are made as
 * mkdir -p makes them, and where none can be made that is said.
 * Method: FIFOs, devices and sockets made in a temporary folder, and the kernel's own file systems.
 */
import { execFileSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { prepareRecordFolder } from "../../src/actors/hosts/recording/record-folder.ts";
import { emptyRegularFile, makeFolder, openRegularFile } from "../../src/config/file-kinds.ts";
import { makeCacheFolder } from "../../src/serving/model/partial-folder.ts";
import { prepareModel } from "../../src/serving/model/prepare-model.ts";
import { checkTraceFile } from "../../src/serving/serving-trace.ts";

const folder = mkdtempSync(join(tmpdir(), "kinds-"));
afterAll(() => rmSync(folder, { recursive: true }));
const fifo = join(folder, "fifo");
execFileSync("mkfifo", [fifo]);
const file = join(folder, "file");
writeFileSync(file, "text");

async function socket(): Promise<string> {
  const path = join(folder, "socket");
  const server = createServer();
  await new Promise<void>((listening) => server.listen(path, listening));
  onTestFinished(() => void server.close());
  return path;
}

test("models and traces: other kinds are named", async () => {
  const others = [
    [fifo, "a FIFO"],
    [folder, "a directory"],
    ["/dev/null", "a character device"],
    [await socket(), "a socket"],
  ] as const;
  for (const [path, kind] of others) {
    expect(() => openRegularFile(path)).toThrow(`this is ${kind}, not a file`);
    expect(() => emptyRegularFile(path)).toThrow(`this is ${kind}, not a file`);
    expect(() => checkTraceFile(path)).toThrow(`this is ${kind}, not a file`);
  }
});

test("a model's name that leads to something else says to what", async () => {
  const options = { cacheFolder: join(folder, "cache") };
  await expect(prepareModel(fifo, options)).rejects.toThrow(/fifo: this is a FIFO, not a file/);
  await expect(prepareModel("/dev/zero", options)).rejects.toThrow(/a character device/);
  await expect(prepareModel(folder, options)).rejects.toThrow(/a directory/);
  await expect(prepareModel(file, options)).rejects.toThrow(/no known model/);
});

test("regular files are opened and emptied", () => {
  closeSync(openRegularFile(file));
  expect(readFileSync(file, "utf8")).toBe("text");
  emptyRegularFile(file);
  expect(statSync(file).size).toBe(0);
  emptyRegularFile(join(folder, "new"));
  expect(existsSync(join(folder, "new"))).toBe(true);
});

test("folders are made with those above, also beside another process", () => {
  makeFolder(join(folder, "a", "b", "c"));
  makeFolder(join(folder, "a", "b", "c"));
  expect(statSync(join(folder, "a", "b", "c")).isDirectory()).toBe(true);
});

test("where no folder can be made, that is said and not tried for ever", () => {
  for (const path of ["/proc/x", "/proc/x/y", "/sys/x", join(file, "x"), fifo, "/dev/null/x"]) {
    expect(() => prepareRecordFolder(path)).toThrow(/record folder/);
    expect(() => makeCacheFolder(path)).toThrow(/cache: the model cache cannot be made there/);
  }
});
