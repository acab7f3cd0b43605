import type { RemoteLookups } from "../../step.ts";
import {
  CALL_REMOTE_POLL,
  CALL_REMOTE_ROOM,
  type RecordedOutput,
  type TableChanges,
} from "../recording/format.ts";

/** Answers lookups of another process from a recording. */
export function replayRemote(
  answer: (kind: number) => readonly (number | TableChanges)[],
  give: (output: RecordedOutput) => void,
): RemoteLookups {
  return {
    room: () => Number(answer(CALL_REMOTE_ROOM)[0]),
    ask: ({ record, tokens, hashes }) =>
      give(["askRemote", record, tokens, Buffer.from(hashes.buffer).toString("hex")]),
    poll() {
      const [record, outcome, hitTokens, ...words] = answer(CALL_REMOTE_POLL).map(Number);
      if (record === undefined || outcome === undefined || hitTokens === undefined) return null;
      const tails: [number, number][] = [];
      for (let at = 0; at + 1 < words.length; at += 2) tails.push([words[at]!, words[at + 1]!]);
      return { record, outcome, hitTokens, tails };
    },
  };
}
