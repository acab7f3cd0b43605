/**
 * Goal: the reference pages and the names that the trace prints agree with the code.
 * Method: docs/events.md and docs/metrics.md are compared with the text made from the closed sets (update with
 * `npx vitest run -u`); lanes and outcomes are compared with the names of the wire's constants; event numbers are unique and pairs
 * are complete.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as messages from "../../src/actors/messages.ts";
import { TRACE_EVENTS } from "../../src/trace/events.ts";
import type { TraceEventDescription } from "../../src/trace/events.ts";
import { eventsReference, metricsReference } from "../../src/trace/reference.ts";
import { packageRoot } from "../../src/worker-entry.ts";

const events = Object.values<TraceEventDescription>(TRACE_EVENTS);
const page = (name: string): string => join(packageRoot(), "docs", name);

describe("reference pages", () => {
  it("docs/events.md is the event set", async () => {
    expect(readFileSync(page("events.md"), "utf8")).not.toBe("");
    await expect(eventsReference()).toMatchFileSnapshot(page("events.md"));
  });
  it("docs/metrics.md is the list of families", async () => {
    expect(readFileSync(page("metrics.md"), "utf8")).not.toBe("");
    await expect(metricsReference()).toMatchFileSnapshot(page("metrics.md"));
  });
});

describe("names", () => {
  it("lanes are the actors and outcome labels the outcomes of the wire", () => {
    // ACTOR_FRONT_END is "frontEnd", OUTCOME_TIMEOUT is "TIMEOUT".
    const camelCase = (name: string): string =>
      name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    const numbers = Object.entries(messages).filter(([, value]) => typeof value === "number");
    const actors = numbers.filter(([name]) => /^ACTOR_(?!COUNT)/.test(name));
    const outcomes = numbers.filter(([name]) => name.startsWith("OUTCOME_"));
    expect(actors.length).toBe(messages.ACTOR_NAMES.length);
    for (const [name, value] of actors)
      expect(messages.ACTOR_NAMES[Number(value)]).toBe(camelCase(name.slice("ACTOR_".length)));
    for (const [name, value] of outcomes)
      expect(messages.OUTCOME_NAMES[Number(value)]).toBe(name.slice("OUTCOME_".length));
    expect(outcomes.length).toBe(messages.OUTCOME_NAMES.length - 1);
  });
  it("event numbers are unique and every begin has an end of the same name and pairing argument", () => {
    expect(new Set(events.map((event) => event.number)).size).toBe(events.length);
    const pairing = (event: TraceEventDescription): string =>
      `${event.name}/${event.arguments.find((name) => name === "step" || name === "batch") ?? ""}`;
    const named = (phase: string): string[] =>
      events.filter((event) => event.phase === phase).map(pairing);
    expect(named("begin").toSorted()).toEqual(named("end").toSorted());
  });
});
