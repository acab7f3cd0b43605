import type { RemoteLookups } from "../../step.ts";
import {
  CALL_REMOTE_POLL,
  CALL_REMOTE_ROOM,
  type RecordedCall,
  type RecordedOutput,
} from "./format.ts";

/** Lookups of another process whose questions and answers are recorded. */
export function recordRemote(
  remote: RemoteLookups,
  call: (...values: RecordedCall) => void,
  output: (given: RecordedOutput) => void,
): RemoteLookups {
  return {
    room() {
      const room = remote.room();
      call(CALL_REMOTE_ROOM, room);
      return room;
    },
    ask(question) {
      const { record, tokens, hashes } = question;
      output(["askRemote", record, tokens, Buffer.from(hashes.buffer).toString("hex")]);
      remote.ask(question);
    },
    poll() {
      const answer = remote.poll();
      if (answer === null) call(CALL_REMOTE_POLL);
      else {
        const { record, outcome, hitTokens, tails } = answer;
        call(CALL_REMOTE_POLL, record, outcome, hitTokens, ...tails.flat());
      }
      return answer;
    },
  };
}
