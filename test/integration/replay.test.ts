/**
 * Goal: a recording of a real run replays: every actor, run again alone from its file, sends the same messages and batches; a
 * recording that was changed, or that ends early, is told apart.
 * Method: a serving process with the tiny model on real threads (pool hits, aborts, a preempted or dropped cache, a death), all
 * actors recorded; files are edited by hand for the controls.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { recordingName } from "../../src/actors/hosts/recording/start-recording.ts";
import type { RecordedStep, RecordingHeader } from "../../src/actors/hosts/recording/format.ts";
import { RecordingFile } from "../../src/actors/hosts/recording/recording-file.ts";
import { replayRecording } from "../../src/actors/hosts/replay/replay.ts";
import { ACTOR_LOOKUP, ACTOR_SCHEDULER } from "../../src/actors/messages.ts";
import { generate, promptOf, startGenerating } from "./support/generate.ts";
import { LogLines } from "./support/log-lines.ts";
import { startServing } from "./support/serving.ts";

const WAIT = { timeout: 120_000 };

interface Run {
  readonly folder: string;
  readonly poolTokens: number;
}

/** Cold, from the pool, aborted in the middle, several at once, and after the death of an actor. */
async function record(extra: Readonly<Record<string, unknown>>, victim: number): Promise<Run> {
  const folder = await mkdtemp(join(tmpdir(), "recordings-"));
  const { application } = await startServing(extra, { recordFolder: folder });
  const { frontEnd, runtime } = application;
  const prompt = promptOf(application, 200);
  await generate(application, prompt);
  await vi.waitUntil(async () => (await application.dumpState()).jobs.count === 0, WAIT);
  await frontEnd.dropLocalCache();
  const { summary } = await generate(application, prompt, { maxTokens: 40 });
  const aborted = startGenerating(application, promptOf(application, 150, 40), {}, (index) => {
    if (index === 2) aborted.abort();
  });
  await aborted.answer;
  await frontEnd.dropLocalCache();
  const together = [0, 10, 20, 30].map((start) =>
    startGenerating(application, promptOf(application, 100 + start, start), { temperature: 1 }),
  );
  together[1]!.abort();
  await Promise.all(together.map(({ answer }) => answer));
  await runtime.supervisor.kill(victim);
  await generate(application, prompt);
  await vi.waitUntil(() => runtime.supervisor.running(victim), WAIT);
  await generate(application, prompt);
  await application.stop();
  return { folder, poolTokens: summary.poolTokens };
}

let run: Run;
afterAll(() => rm(run.folder, { recursive: true }));

describe.each([
  ["the scheduler dies, lookups hold the step", { lookup_async: false }, ACTOR_SCHEDULER],
  ["the lookup actor dies, lookups are asynchronous", { lookup_async: true }, ACTOR_LOOKUP],
])("a recorded run in which %s", (_name, extra, victim) => {
  beforeAll(async () => {
    if (run !== undefined) await rm(run.folder, { recursive: true });
    run = await record(extra, victim);
  });

  test("took tokens from the pool", () => expect(run.poolTokens).toBeGreaterThan(100));

  test("replays equal, every actor, and as far as it was written where the thread died", async () => {
    const files = (await readdir(run.folder)).toSorted();
    expect(files).toHaveLength(5);
    for (const file of files) {
      const report = await replayRecording(join(run.folder, file));
      expect(report, file).toMatchObject({ divergence: null });
      const died = report.actor === victim && report.epoch === 1;
      expect(report.complete, file).toBe(!died);
      expect(report.steps, file).toBeGreaterThan(2);
      expect(report.outputs, file).toBeGreaterThan(2);
    }
  });
});

test("requests that are aborted as soon as they are added replay equal", async () => {
  const folder = await mkdtemp(join(tmpdir(), "recordings-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const { application } = await startServing({}, { recordFolder: folder });
  // The scheduler takes the second one's message now and then just before its abort: once in some twenty rounds.
  for (let round = 0; round < 60; round++) {
    const together = [0, 10, 20].map((start) =>
      startGenerating(application, promptOf(application, 50, start + round), { maxTokens: 2 }),
    );
    together[1]!.abort();
    await Promise.all(together.map(({ answer }) => answer));
  }
  await application.stop();
  const report = await replayRecording(join(folder, recordingName(ACTOR_SCHEDULER, 1)));
  expect(report).toMatchObject({ complete: true, divergence: null });
});

describe("a recording that was changed", () => {
  /** Writes a copy with one line changed. */
  async function changed(
    actor: number,
    pick: (line: string) => boolean,
    change: (line: string) => string,
  ): Promise<{ path: string; step: number }> {
    const lines = (await readFile(join(run.folder, recordingName(actor, 1)), "utf8"))
      .trimEnd()
      .split("\n");
    const at = lines.findIndex((line, index) => index > 1 && pick(line));
    expect(at).toBeGreaterThan(1);
    lines[at] = change(lines[at]!);
    const path = join(run.folder, "changed.jsonl");
    await writeFile(path, lines.join("\n"));
    return { path, step: at - 1 };
  }

  test.each([
    ["a message sent", '"tokenGenerated"', /"token":(\d+)/, '"token":9999'],
    ["a message taken", '"kind":"addRequest"', /"kind":"addRequest"/, '"kind":"abortRequest"'],
    ["a message left out", '"send"', /\["send",.*?\}\](,(?=\["))?/, ""],
  ])("%s: the step is named", async (_name, part, from, to) => {
    const { path, step } = await changed(
      ACTOR_SCHEDULER,
      (line) => line.includes(part),
      (line) => line.replace(from, to),
    );
    const { divergence, complete, steps } = await replayRecording(path);
    expect(complete).toBe(false);
    expect(divergence).toMatchObject({ step, problem: expect.any(String) as string });
    expect(steps).toBe(step);
  });

  test("a token of the model: the actor sends another than it had sent", async () => {
    const lines = (await readFile(join(run.folder, recordingName(ACTOR_SCHEDULER, 1)), "utf8"))
      .trimEnd()
      .split("\n");
    // Table 5: the step buffers, where the model writes its tokens; a step before the message may have seen them already.
    const ofModel = (line: string): number[][] =>
      (JSON.parse(line) as { changes: number[][] }).changes.filter(([table]) => table === 5);
    const at = lines.findIndex(
      (line) => line.includes('"kind":"stepDone"') && ofModel(line).length > 0,
    );
    const step = JSON.parse(lines[at]!) as { changes: number[][] };
    for (const run of step.changes.filter(([table]) => table === 5))
      for (let index = 2; index < run.length; index++) run[index] = run[index]! ^ 1;
    lines[at] = JSON.stringify(step);
    const path = join(run.folder, "token.jsonl");
    await writeFile(path, lines.join("\n"));
    expect((await replayRecording(path)).divergence).not.toBeNull();
  });

  test("a file that is no recording is refused", async () => {
    const path = join(run.folder, "none.jsonl");
    await writeFile(path, '{"hello":1}\n');
    await expect(replayRecording(path)).rejects.toMatchObject({ code: "INVALID_VALUE" });
    await writeFile(path, "");
    await expect(replayRecording(path)).rejects.toMatchObject({ code: "INVALID_VALUE" });
  });
});

test("a folder that cannot be written to is refused before anything starts", async () => {
  const folder = join(run.folder, recordingName(ACTOR_SCHEDULER, 1), "below-a-file");
  await expect(startServing({}, { recordFolder: folder })).rejects.toMatchObject({
    code: "INVALID_VALUE",
    field: "record folder",
  });
});

test("a disk that is too slow: the recording stops there and says so", async () => {
  const log = new LogLines();
  const path = join(run.folder, "slow.jsonl");
  const recorded = await readFile(join(run.folder, recordingName(ACTOR_SCHEDULER, 1)), "utf8");
  const [header = "", first = "", ...steps] = recorded.split("\n", 6);
  // Nothing is written before this thread's event loop turns: header and first step are all that may wait, and one more.
  const file = new RecordingFile(path, log, header.length + first.length + 2);
  file.header(JSON.parse(header) as RecordingHeader);
  for (const step of [first, ...steps]) file.step(JSON.parse(step) as RecordedStep);
  await file.end();
  const end = (await readFile(path, "utf8")).trimEnd().split("\n").at(-1)!;
  expect(JSON.parse(end)).toEqual({ end: true, steps: 2, stepsLost: 3 });
  expect(log.count("recording is incomplete")).toBe(1);
  expect(await replayRecording(path)).toMatchObject({
    steps: 2,
    complete: false,
    divergence: null,
  });
});
