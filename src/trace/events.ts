/**
 * The closed set of trace events. Each event names its lane (the actor that records it), its phase and what its two
 * arguments mean. Events are correlated by request (slot, generation), scheduling step and block.
 *
 * A begin and an end pair when lane, name and request are equal and, where both have an argument `step` or `batch`, when
 * that is equal too. `docs/events.md` lists the set; a test holds both equal.
 */
export interface TraceEventDescription {
  readonly number: number;
  /** `begin` and `end` pair by request on the lane (they may overlap: async slices); `instant` stands alone. */
  readonly phase: "begin" | "end" | "instant";
  /** The slice's name for begin/end pairs. */
  readonly name: string;
  readonly arguments: readonly [string, string];
  readonly description: string;
}

const event = (
  number: number,
  phase: TraceEventDescription["phase"],
  name: string,
  first: string,
  second: string,
  description: string,
): TraceEventDescription => ({ number, phase, name, arguments: [first, second], description });

export const TRACE_EVENTS = {
  requestAdded: event(
    1,
    "begin",
    "request",
    "promptTokens",
    "tokensMax",
    "The scheduler took the request.",
  ),
  requestFinished: event(
    2,
    "end",
    "request",
    "reason",
    "outputTokens",
    "The request ended; reason is a FINISH_ code.",
  ),
  slotReleased: event(
    3,
    "instant",
    "slot released",
    "-",
    "-",
    "Nothing of the request is in flight any more.",
  ),
  requestParked: event(
    4,
    "begin",
    "parked",
    "why",
    "-",
    "Waits for hashes (1), lookup (2) or load (3).",
  ),
  requestResumed: event(
    5,
    "end",
    "parked",
    "why",
    "-",
    "The wait is over; the request is looked at again.",
  ),
  requestAdmitted: event(
    6,
    "instant",
    "admitted",
    "computedTokens",
    "blocks",
    "Blocks allocated; runs in this step.",
  ),
  requestPreempted: event(
    7,
    "instant",
    "preempted",
    "computedTokens",
    "blocks",
    "Blocks taken back; will be recomputed.",
  ),
  firstToken: event(
    8,
    "instant",
    "first token",
    "localTokens",
    "poolTokens",
    "The first token of the answer.",
  ),
  stepScheduled: event(
    9,
    "begin",
    "step",
    "step",
    "sequences",
    "A scheduling step was handed to the model.",
  ),
  stepFinished: event(
    10,
    "end",
    "step",
    "step",
    "tokens",
    "The model answered and the scheduler applied it.",
  ),
  modelBegin: event(11, "begin", "model", "step", "sequences", "The model computes a step."),
  modelEnd: event(12, "end", "model", "step", "tokens", "The model is done with a step."),
  lookupSubmitted: event(
    13,
    "begin",
    "lookup",
    "tokens",
    "attempt",
    "The scheduler side asked the pool.",
  ),
  lookupAnswered: event(
    14,
    "end",
    "lookup",
    "outcome",
    "hitTokens",
    "The scheduler side saw the answer.",
  ),
  hashBegin: event(15, "begin", "hash", "blocks", "-", "The lookup actor hashes a prompt."),
  hashEnd: event(16, "end", "hash", "blocks", "-", "The prompt's hashes are in the arena."),
  existsSubmitted: event(
    17,
    "begin",
    "exists batch",
    "keys",
    "batch",
    "One batch exists went to the engine.",
  ),
  existsDone: event(18, "end", "exists batch", "batch", "status", "The engine answered."),
  loadBegin: event(19, "begin", "load", "job", "blocks", "The loader took a load job."),
  loadEnd: event(
    20,
    "end",
    "load",
    "outcome",
    "badChunk",
    "The job is over; the engine writes no block of it any more.",
  ),
  getSubmitted: event(
    21,
    "begin",
    "get batch",
    "keys",
    "batch",
    "One get batch went to the engine.",
  ),
  getDone: event(22, "end", "get batch", "batch", "status", "The engine answered."),
  saveBegin: event(23, "begin", "save", "job", "blocks", "The saver took a save job."),
  saveEnd: event(
    24,
    "end",
    "save",
    "outcome",
    "writtenBlocks",
    "The job is over; its blocks may be reused.",
  ),
  putSubmitted: event(
    25,
    "begin",
    "put batch",
    "keys",
    "batch",
    "One put batch went to the engine.",
  ),
  putDone: event(26, "end", "put batch", "batch", "status", "The engine answered."),
  blocksPinned: event(
    27,
    "instant",
    "pinned",
    "job",
    "blocks",
    "Blocks are held for a save job or a load.",
  ),
  blocksUnpinned: event(
    28,
    "instant",
    "unpinned",
    "job",
    "blocks",
    "Every rank has reported: blocks may be reused.",
  ),
  blocksQuarantined: event(
    29,
    "instant",
    "quarantined",
    "job",
    "blocks",
    "A request left while an engine still uses its blocks.",
  ),
  loadFailed: event(
    30,
    "instant",
    "load failed",
    "badChunk",
    "keptTokens",
    "Cut back to the first bad block; the rest is computed.",
  ),
  deadlinePassed: event(
    31,
    "instant",
    "deadline",
    "what",
    "attempt",
    "Lookup (1), load (2) or save (3) took too long.",
  ),
  actorStarted: event(32, "instant", "actor started", "actor", "epoch", "An actor runs (again)."),
  actorDied: event(
    33,
    "instant",
    "actor died",
    "actor",
    "epoch",
    "An actor threw or its thread ended.",
  ),
  engineDown: event(
    34,
    "instant",
    "engine down",
    "failures",
    "probeMs",
    "Three engine failures in a row: lookups answer at once.",
  ),
  engineUp: event(35, "instant", "engine up", "-", "-", "A probe succeeded."),
  staleMessage: event(
    36,
    "instant",
    "stale message",
    "kind",
    "-",
    "Late, duplicate or unknown id: counted and dropped.",
  ),
  localHit: event(
    37,
    "instant",
    "local hit",
    "tokens",
    "blocks",
    "Prefix found in the local cache.",
  ),
  blocksEvicted: event(
    38,
    "instant",
    "evicted",
    "blocks",
    "-",
    "Local prefix-cache blocks were reused.",
  ),
  engineOpened: event(
    39,
    "instant",
    "engine opened",
    "reopenings",
    "-",
    "The storage engine is open (again).",
  ),
  engineLost: event(
    40,
    "instant",
    "engine lost",
    "reopenings",
    "final",
    "The storage engine is down and opened again with back-off (0), or has failed for good (1).",
  ),
  poolOpened: event(41, "instant", "pool opened", "keysUnlike", "-", "This member uses the pool."),
  poolClosed: event(
    42,
    "instant",
    "pool closed",
    "bytesUnlike",
    "-",
    "Identities or sizes of values clash: it computes.",
  ),
  valuesRefused: event(43, "instant", "refused", "keys", "code", "Pool values not to be used."),
} as const;

export type TraceEventName = keyof typeof TRACE_EVENTS;

/** What an actor records with: one writer a thread, bounded ring, lost events are counted and never waited for. */
export interface TraceWriter {
  /** `slot` and `generation` are NONE for events without a request. Costs well under a microsecond; no allocation. */
  record(
    event: TraceEventName,
    slot: number,
    generation: number,
    first: number,
    second: number,
  ): void;
}

/** Records nothing: for tests and for runs without tracing. */
export const NO_TRACE: TraceWriter = { record: () => undefined };
