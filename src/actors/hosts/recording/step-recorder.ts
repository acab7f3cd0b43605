import { REQUEST_HIT_TOKENS, REQUEST_TAIL_TOKENS } from "../../../blocks/layout.ts";
import type { Tables, TableBuffers } from "../../../blocks/tables.ts";
import type { EngineChannel } from "../../../store/engine.ts";
import type { Message } from "../../messages.ts";
import type { ActorContext, Inbox } from "../../step.ts";
import {
  CALL_HASH_BLOCKS,
  CALL_RANDOM,
  CALL_READ_LOOKUP,
  CALL_READ_MEMBERSHIP,
  CALL_ROOM,
  CALL_WAIT_LOOKUP,
  type RecordedCall,
  type RecordedOutput,
} from "./format.ts";
import { recordChannel } from "./record-channel.ts";
import { recordRemote } from "./record-remote.ts";
import type { RecordingFile } from "./recording-file.ts";
import { TABLE_HASHES, TableShadow } from "./table-shadow.ts";

export interface StepRecorderOptions {
  readonly buffers: TableBuffers;
  readonly tables: Tables;
  readonly file: RecordingFile;
}

/**
 * Records everything that an actor gets from outside, and what it gives away: see format.ts. The host takes all messages of a
 * step first, so that everything they publish is in the tables when these are compared.
 */
export class StepRecorder implements Inbox {
  readonly #tables: Tables;
  readonly #file: RecordingFile;
  readonly #shadow: TableShadow;
  #step = 0;
  #nowMs = 0;
  #messages: Message[] = [];
  #taken = 0;
  #changes: ReturnType<TableShadow["changes"]>;
  #calls: RecordedCall[] = [];
  #outputs: RecordedOutput[] = [];

  /** Step 0 begins here: make the actor now, with `record`ed context, then call `end`. */
  constructor(options: StepRecorderOptions, nowMs: number) {
    this.#tables = options.tables;
    this.#file = options.file;
    this.#shadow = new TableShadow(options.buffers);
    this.#nowMs = nowMs;
    this.#changes = this.#shadow.changes();
  }

  /** The inbox of the next step. */
  begin(inbox: Inbox, nowMs: number): Inbox {
    this.#nowMs = nowMs;
    this.#taken = 0;
    this.#messages = [];
    for (let message = inbox.next(); message !== null; message = inbox.next())
      this.#messages.push(message);
    this.#changes = this.#shadow.changes();
    return this;
  }

  next(): Message | null {
    return this.#messages[this.#taken++] ?? null;
  }

  end(deadlineMs: number): void {
    this.#file.step({
      step: this.#step++,
      nowMs: this.#nowMs,
      messages: this.#messages,
      changes: this.#changes,
      calls: this.#calls,
      outputs: this.#outputs,
      deadlineMs: deadlineMs === Infinity ? null : deadlineMs,
    });
    this.#calls = [];
    this.#outputs = [];
  }

  /** A context whose answers are recorded. */
  record(context: ActorContext): ActorContext {
    const call = (...values: RecordedCall): void => void this.#calls.push(values);
    const output = (given: RecordedOutput): void => void this.#outputs.push(given);
    let channel: EngineChannel | undefined;
    const { waitLookup, readMembership, remoteLookups } = context;
    return {
      epoch: context.epoch,
      nowMs: () => context.nowMs(),
      log: context.log,
      trace: context.trace,
      get engine(): EngineChannel {
        channel ??= recordChannel(context.engine, call, output);
        return channel;
      },
      remoteLookups: remoteLookups && recordRemote(remoteLookups, call, output),
      random: () => {
        const value = context.random();
        call(CALL_RANDOM, value);
        return value;
      },
      send: (actor, message) => {
        output(["send", actor, message]);
        context.send(actor, message);
      },
      room: (actor) => {
        const value = context.room(actor);
        call(CALL_ROOM, value);
        return value;
      },
      readLookup: (slot) => {
        const word = context.readLookup(slot);
        // What the lookup actor published with the word: the step may read it next.
        call(CALL_READ_LOOKUP, slot, word, ...this.#answer(slot));
        return word;
      },
      hashBlocks: (...pages) => {
        const value = context.hashBlocks(...pages);
        // The digests are in the tables now, and this very step may read them.
        call(CALL_HASH_BLOCKS, value, this.#shadow.changesOf(TABLE_HASHES));
        return value;
      },
      ...(readMembership === undefined
        ? {}
        : {
            readMembership: () => {
              const membership = readMembership();
              call(CALL_READ_MEMBERSHIP, membership);
              return membership;
            },
          }),
      ...(waitLookup === undefined
        ? {}
        : {
            waitLookup: (slot: number, seenWord: number, timeoutMs: number) => {
              const leftMs = waitLookup(slot, seenWord, timeoutMs);
              call(CALL_WAIT_LOOKUP, leftMs);
              return leftMs;
            },
          }),
    };
  }

  #answer(slot: number): number[] {
    const { requests, dimensions } = this.#tables;
    const at = this.#tables.request(slot);
    const tails = at + REQUEST_TAIL_TOKENS;
    return [
      requests[at + REQUEST_HIT_TOKENS]!,
      ...requests.subarray(tails, tails + dimensions.groups),
    ];
  }
}
