import { TRACE_EVENTS } from "./events.ts";
import type { TraceEventDescription } from "./events.ts";
import type { CollectedRecord } from "./collector.ts";

const DESCRIPTIONS: ReadonlyMap<number, TraceEventDescription> = new Map(
  Object.values<TraceEventDescription>(TRACE_EVENTS).map((description) => [
    description.number,
    description,
  ]),
);

/** Description of an event number, or undefined when this version does not know it. */
export function describeTraceEvent(event: number): TraceEventDescription | undefined {
  return DESCRIPTIONS.get(event);
}

/** Of these a request may have several on a lane at once (saves step by step, one load a rank): ends pair oldest first. */
const SEVERAL_AT_ONCE: ReadonlySet<string> = new Set(["load", "save"]);

/** Never overlap on their lane, because the actor does nothing else meanwhile. */
const ALONE_ON_LANE: ReadonlySet<string> = new Set(["model", "hash"]);

/** A slice that has begun. `serial` counts slices up, so it names one slice. */
export interface OpenSlice {
  readonly begin: CollectedRecord;
  readonly description: TraceEventDescription;
  readonly serial: number;
  readonly key: string;
}

/**
 * Pairs begins with ends. A begin that repeats an open slice which can exist only once means that the end was lost or that
 * the actor died: the older slice is given back as unfinished. At most `openMax` slices are open at a time.
 */
export class OpenSlices {
  readonly #open = new Map<string, OpenSlice[]>();
  readonly #alone = new Map<number, OpenSlice>();
  readonly #openMax: number;
  #count = 0;
  #serial = 0;

  constructor(openMax: number) {
    this.#openMax = openMax;
  }

  get full(): boolean {
    return this.#count >= this.#openMax;
  }

  static aloneOnLane(description: TraceEventDescription): boolean {
    return ALONE_ON_LANE.has(description.name);
  }

  /** True when a request may have several slices of this name open on a lane. */
  static overlapsItself(description: TraceEventDescription): boolean {
    // Slices that are told apart by step or batch may be open side by side.
    const named = description.arguments.some((name) => name === "step" || name === "batch");
    return named || SEVERAL_AT_ONCE.has(description.name);
  }

  /** Ask `full` first. `replaced` are slices that this one shows to be over. */
  begin(
    begin: CollectedRecord,
    description: TraceEventDescription,
  ): { readonly slice: OpenSlice; readonly replaced: readonly OpenSlice[] } {
    const key = sliceKey(begin, description);
    const replaced: OpenSlice[] = [];
    const several = SEVERAL_AT_ONCE.has(description.name);
    for (const older of this.#open.get(key) ?? []) {
      if (!several || older.begin.epoch !== begin.epoch) replaced.push(older);
    }
    const alone = OpenSlices.aloneOnLane(description);
    const blocking = alone ? this.#alone.get(begin.lane) : undefined;
    if (blocking !== undefined && !replaced.includes(blocking)) replaced.push(blocking);
    for (const older of replaced) this.#remove(older);
    const slice: OpenSlice = { begin, description, serial: ++this.#serial, key };
    const open = this.#open.get(key);
    if (open === undefined) this.#open.set(key, [slice]);
    else open.push(slice);
    if (alone) this.#alone.set(begin.lane, slice);
    this.#count++;
    return { slice, replaced };
  }

  /** The slice that this record ends, or undefined when its begin was not seen. */
  end(end: CollectedRecord, description: TraceEventDescription): OpenSlice | undefined {
    const slice = this.#open.get(sliceKey(end, description))?.[0];
    if (slice !== undefined) this.#remove(slice);
    return slice;
  }

  /** Takes out all that is open, oldest first. */
  takeAll(): OpenSlice[] {
    const all = [...this.#open.values()]
      .flat()
      .toSorted((left, right) => left.serial - right.serial);
    this.#open.clear();
    this.#alone.clear();
    this.#count = 0;
    return all;
  }

  #remove(slice: OpenSlice): void {
    const left = (this.#open.get(slice.key) ?? []).filter((other) => other !== slice);
    if (left.length === 0) this.#open.delete(slice.key);
    else this.#open.set(slice.key, left);
    if (this.#alone.get(slice.begin.lane) === slice) this.#alone.delete(slice.begin.lane);
    this.#count--;
  }
}

/** Lane, name, request and, where the event has one, step or batch. */
function sliceKey(record: CollectedRecord, description: TraceEventDescription): string {
  const at = description.arguments.findIndex((name) => name === "step" || name === "batch");
  const part = at === -1 ? "" : at === 0 ? record.first : record.second;
  return `${record.lane}:${description.name}:${record.slot}:${record.generation}:${part}`;
}
