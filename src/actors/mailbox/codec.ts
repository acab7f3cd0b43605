import type { Message, MessageKind, MessageOf } from "../messages.ts";

/** Words of a message record: word 0 is the kind, the rest the fields in the order below; the last word is the sequence. */
export const RECORD_WORDS = 16;

type Fields<Kind extends MessageKind> = readonly Exclude<keyof MessageOf<Kind>, "kind">[];

/** Field order of every kind on the wire. The position of a kind in this table is its number. */
const FIELDS: { readonly [Kind in MessageKind]: Fields<Kind> } = {
  addRequest: ["slot", "generation"],
  abortRequest: ["slot", "generation"],
  dropLocalCache: ["ticket"],
  localCacheDropped: ["ticket", "blocks"],
  tokenGenerated: [
    "slot",
    "generation",
    "index",
    "token",
    "logprobF32",
    "logitsHashLow",
    "logitsHashHigh",
    "logprobRow",
  ],
  requestFinished: [
    "slot",
    "generation",
    "reason",
    "outputTokens",
    "localTokens",
    "poolTokens",
    "lookupOutcome",
    "preemptions",
  ],
  slotReleased: ["slot", "generation"],
  hashRequest: ["slot", "generation"],
  hashed: ["slot", "generation", "blocks"],
  lookup: ["slot", "generation", "attempt", "tokens", "hashedBlocks"],
  lookupDone: ["slot", "generation", "attempt"],
  discardLookup: ["slot", "generation", "attempt"],
  load: ["job", "ticket", "worker"],
  loadDone: [
    "job",
    "ticket",
    "worker",
    "outcome",
    "badChunk",
    "memoryBlocks",
    "diskBlocks",
    "kibibytes",
    "microseconds",
  ],
  cancelLoad: ["job", "ticket"],
  save: ["job", "ticket", "worker"],
  saveDone: [
    "job",
    "ticket",
    "worker",
    "outcome",
    "writtenBlocks",
    "presentBlocks",
    "failedBlocks",
    "kibibytes",
    "microseconds",
  ],
  runStep: ["step", "number"],
  stepDone: ["step", "number", "status", "microseconds"],
  actorRestarted: ["actor", "epoch"],
  stop: ["deadlineMs"],
  actorGone: ["actor"],
};

export const MESSAGE_KINDS = Object.keys(FIELDS) as readonly MessageKind[];

const NUMBERS = new Map<string, number>(MESSAGE_KINDS.map((kind, index) => [kind, index + 1]));
const WRITERS = new Map<
  string,
  (words: Int32Array, at: number, message: Record<string, number>) => void
>();
const READERS: ((words: Int32Array, at: number) => Message)[] = [];

// One closure a kind, so that a hot message is written and read with a fixed shape and no loop over names of other kinds.
for (const kind of MESSAGE_KINDS) {
  const fields = FIELDS[kind] as readonly string[];
  const number = NUMBERS.get(kind) ?? 0;
  WRITERS.set(kind, (words, at, message) => {
    words[at] = number;
    for (let index = 0; index < fields.length; index++)
      words[at + 1 + index] = message[fields[index]!]!;
  });
  READERS[number] = (words, at) => {
    const message: Record<string, number | string> = { kind };
    for (let index = 0; index < fields.length; index++)
      message[fields[index]!] = words[at + 1 + index]!;
    return message as unknown as Message;
  };
}

export function encodeMessage(words: Int32Array, at: number, message: Message): void {
  WRITERS.get(message.kind)?.(words, at, message as unknown as Record<string, number>);
}

/** The message at `at`, or null when the kind number is unknown (a broken peer): the caller counts and drops it. */
export function decodeMessage(words: Int32Array, at: number): Message | null {
  return READERS[words[at]!]?.(words, at) ?? null;
}
