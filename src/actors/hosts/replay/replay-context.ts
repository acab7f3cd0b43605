import { isDeepStrictEqual } from "node:util";
import {
  REQUEST_HIT_TOKENS,
  REQUEST_LOOKUP_WORD,
  REQUEST_TAIL_TOKENS,
} from "../../../blocks/layout.ts";
import type { TableBuffers, Tables } from "../../../blocks/tables.ts";
import { brokenInvariant } from "../../../errors.ts";
import { NO_TRACE } from "../../../trace/events.ts";
import type { Message } from "../../messages.ts";
import type { ActorContext, Inbox, Log } from "../../step.ts";
import {
  CALL_HASH_BLOCKS,
  CALL_RANDOM,
  CALL_READ_LOOKUP,
  CALL_READ_MEMBERSHIP,
  CALL_ROOM,
  CALL_WAIT_LOOKUP,
  type RecordedOutput,
  type RecordedStep,
  type RecordingHeader,
  type TableChanges,
} from "../recording/format.ts";
import { applyChanges } from "../recording/table-shadow.ts";
import { ReplayChannel } from "./replay-channel.ts";
import { replayRemote } from "./replay-remote.ts";

/** The actor did something else than it had done. */
export class ReplayDivergence extends Error {}

const silent = (): void => undefined;
const SILENT: Log = { debug: silent, info: silent, warn: silent, error: silent };
const NOTHING: RecordedStep = {
  step: -1,
  nowMs: 0,
  messages: [],
  changes: [],
  calls: [],
  outputs: [],
  deadlineMs: null,
};

/** Inbox and context of a replayed step: gives the recorded answers, in their order, and checks what the actor gives away. */
export class ReplayContext implements Inbox {
  readonly context: ActorContext;
  readonly #tables: Tables;
  readonly #buffers: TableBuffers;
  #recorded = NOTHING;
  #taken = 0;
  #called = 0;
  #given = 0;

  constructor(header: RecordingHeader, buffers: TableBuffers, tables: Tables) {
    this.#tables = tables;
    this.#buffers = buffers;
    const { epoch, channel } = header;
    const engine =
      channel === null
        ? null
        : new ReplayChannel(
            channel,
            (kind) => this.answer(kind),
            (output) => this.give(output),
          );
    this.context = {
      epoch,
      nowMs: () => this.#recorded.nowMs,
      log: SILENT,
      trace: NO_TRACE,
      get engine() {
        return engine ?? brokenInvariant("actor without an engine channel", header.actor);
      },
      remoteLookups: replayRemote(
        (kind) => this.answer(kind),
        (output) => this.give(output),
      ),
      random: () => this.#number(CALL_RANDOM),
      send: (actor, message) => this.give(["send", actor, message]),
      room: () => this.#number(CALL_ROOM),
      readLookup: (slot) => this.#readLookup(slot),
      readMembership: () => this.#number(CALL_READ_MEMBERSHIP),
      waitLookup: () => this.#number(CALL_WAIT_LOOKUP),
      hashBlocks: () => this.#hashBlocks(),
    };
  }

  begin(recorded: RecordedStep): void {
    this.#recorded = recorded;
    this.#taken = 0;
    this.#called = 0;
    this.#given = 0;
  }

  next(): Message | null {
    return this.#recorded.messages[this.#taken++] ?? null;
  }

  /** Throws ReplayDivergence when the actor left something out. */
  end(): void {
    const { messages, calls, outputs } = this.#recorded;
    if (this.#given < outputs.length)
      throw new ReplayDivergence(`does not give ${JSON.stringify(outputs[this.#given])}`);
    if (this.#called < calls.length)
      throw new ReplayDivergence(`asks ${this.#called} times, recorded: ${calls.length}`);
    if (this.#taken < messages.length)
      throw new ReplayDivergence(`takes ${this.#taken} of ${messages.length} messages`);
  }

  /** The values of the next recorded answer, which must be of this kind. */
  answer(kind: number): readonly (number | TableChanges)[] {
    const call = this.#recorded.calls[this.#called++];
    if (call === undefined || call[0] !== kind)
      throw new ReplayDivergence(`asks ${kind}, recorded: ${String(call?.[0])}`);
    return call.slice(1);
  }

  give(output: RecordedOutput): void {
    const recorded = this.#recorded.outputs[this.#given++];
    // As JSON has it: a recording knows no negative zero and no undefined fields.
    const given = JSON.parse(JSON.stringify(output)) as RecordedOutput;
    if (!isDeepStrictEqual(given, recorded))
      throw new ReplayDivergence(
        `gives ${JSON.stringify(given)}, recorded: ${JSON.stringify(recorded ?? null)}`,
      );
  }

  #number(kind: number): number {
    return Number(this.answer(kind)[0]);
  }

  #readLookup(slot: number): number {
    const [asked, word, hitTokens, ...tails] = this.answer(CALL_READ_LOOKUP);
    if (asked !== slot)
      throw new ReplayDivergence(`polls the lookup of slot ${slot}, recorded: ${String(asked)}`);
    const at = this.#tables.request(slot);
    // The lookup actor may have published it in the middle of the step.
    this.#tables.requests[at + REQUEST_LOOKUP_WORD] = Number(word);
    this.#tables.requests[at + REQUEST_HIT_TOKENS] = Number(hitTokens);
    this.#tables.requests.set(tails.map(Number), at + REQUEST_TAIL_TOKENS);
    return Number(word);
  }

  #hashBlocks(): number {
    const [result, changes] = this.answer(CALL_HASH_BLOCKS);
    if (Array.isArray(changes)) applyChanges(this.#buffers, changes);
    return Number(result);
  }
}
