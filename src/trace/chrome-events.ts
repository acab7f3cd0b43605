import { NONE } from "../blocks/layout.ts";
import type { TraceEventDescription } from "./events.ts";
import type { CollectedRecord } from "./collector.ts";
import { laneName, OUTCOME_LABELS, PARK_REASONS, TRACE_LANES } from "./lanes.ts";
import { OpenSlices } from "./slices.ts";
import type { OpenSlice } from "./slices.ts";

/** One event of the Chrome trace event format. Times are microseconds. */
export interface ChromeEvent {
  readonly ph: "b" | "e" | "X" | "i" | "C" | "M";
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly ts?: number;
  readonly dur?: number;
  readonly cat?: string;
  readonly id?: string;
  readonly s?: "t";
  readonly args?: Readonly<Record<string, string | number | boolean>>;
}

type Arguments = Record<string, string | number | boolean>;

/** The request's text id, where it is known. */
export type RequestIdOf = (slot: number, generation: number) => string | undefined;

export const PROCESS = 1;
/** Threads are numbered from 1: some viewers take thread 0 for the process. */
const threadOf = (lane: number): number => lane + 1;

/** Names of the process and of a thread for each lane, in the lanes' order. */
export function metadataEvents(processName: string, lanes: readonly number[]): ChromeEvent[] {
  const meta = (name: string, tid: number, args: Arguments): ChromeEvent => ({
    ph: "M",
    name,
    pid: PROCESS,
    tid,
    args,
  });
  return [
    meta("process_name", 0, { name: processName }),
    ...lanes.flatMap((lane) => [
      meta("thread_name", threadOf(lane), { name: laneName(lane) }),
      meta("thread_sort_index", threadOf(lane), { sort_index: lane }),
    ]),
  ];
}

/**
 * Begin or end of a slice that may overlap others. Viewers pair by category and id, and want slices with equal category
 * and id properly nested. So the id is the request, the category has the slice's name, and where a request may have
 * several slices of that name at once the id has the slice's serial too.
 */
export function asyncEvent(
  phase: "b" | "e",
  slice: OpenSlice,
  microseconds: number,
  args: Arguments,
): ChromeEvent {
  const { begin, description, serial } = slice;
  const request = `${begin.slot}.${begin.generation}`;
  const id =
    begin.slot === NONE
      ? `${serial}`
      : OpenSlices.overlapsItself(description)
        ? `${request}.${serial}`
        : request;
  return {
    ph: phase,
    name: description.name,
    pid: PROCESS,
    tid: threadOf(begin.lane),
    ts: microseconds,
    cat: category(begin.lane, description),
    id,
    args,
  };
}

/** A slice of a lane that does one thing at a time. */
export function completeEvent(
  slice: OpenSlice,
  endMicroseconds: number,
  args: Arguments,
): ChromeEvent {
  const { begin, description } = slice;
  return {
    ph: "X",
    name: description.name,
    pid: PROCESS,
    tid: threadOf(begin.lane),
    ts: begin.microseconds,
    dur: Math.max(0, endMicroseconds - begin.microseconds),
    cat: category(begin.lane, description),
    args,
  };
}

export function instantEvent(
  record: CollectedRecord,
  description: TraceEventDescription,
  args: Arguments,
): ChromeEvent {
  return {
    ph: "i",
    name: description.name,
    pid: PROCESS,
    tid: threadOf(record.lane),
    ts: record.microseconds,
    cat: category(record.lane, description),
    s: "t",
    args,
  };
}

export function counterEvent(name: string, microseconds: number, values: Arguments): ChromeEvent {
  return { ph: "C", name, pid: PROCESS, tid: 0, ts: microseconds, args: values };
}

/** What the record says, by the names of its description; codes that have a name are printed with it. */
export function recordArguments(
  record: CollectedRecord,
  description: TraceEventDescription,
  requestId: RequestIdOf | undefined,
): Arguments {
  const args: Arguments = {};
  if (record.slot !== NONE) {
    args["slot"] = record.slot;
    args["generation"] = record.generation;
    const id = requestId?.(record.slot, record.generation);
    if (id !== undefined) args["request"] = id;
  }
  const [first, second] = description.arguments;
  if (first !== "-") args[first] = readable(first, record.first);
  if (second !== "-") args[second] = readable(second, record.second);
  args["actorEpoch"] = record.epoch;
  return args;
}

function category(lane: number, description: TraceEventDescription): string {
  return `${laneName(lane)},${description.name}`;
}

function readable(argument: string, value: number): string | number {
  if (argument === "outcome") return OUTCOME_LABELS[value] ?? value;
  if (argument === "why") return PARK_REASONS[value - 1] ?? value;
  if (argument === "actor") return TRACE_LANES[value] ?? value;
  return value;
}
