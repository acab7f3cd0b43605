/** The frames of the lookup RPC, both ways. */
import {
  decodeLookupReply,
  decodeWireRequest,
  encodeLookupReply,
  encodeLookupRequest,
  LOOKUP_TAG,
  RESET_DONE,
  RESET_FAILED,
  RESET_TAG,
} from "../../../../src/connector/lookup-wire.ts";
import { Cases } from "../cases.ts";
import type { VectorKind } from "../cases.ts";

interface LookupWireFile {
  readonly tags: Readonly<Record<string, string>>;
  readonly requests: readonly {
    readonly num_tokens: number;
    readonly hashes: readonly string[];
    readonly frames: readonly string[];
  }[];
  readonly responses: readonly {
    readonly hit_tokens: number;
    readonly tail_key_boundaries: readonly (readonly [number, number])[];
    readonly bytes: string;
  }[];
  readonly decode: readonly { readonly bytes: string; readonly accepted: boolean }[];
}

export const lookupWire: VectorKind = {
  name: "lookup_wire",
  run(contents) {
    const file = contents as LookupWireFile;
    const report = new Cases();
    report.run("tags", (check) => {
      const tags = { lookup: LOOKUP_TAG, reset: RESET_TAG, ok: RESET_DONE, error: RESET_FAILED };
      const ours = Object.fromEntries(Object.entries(tags).map(([name, tag]) => [name, hex(tag)]));
      check.equal("tags", ours, file.tags);
    });
    file.requests.forEach((one, index) =>
      report.run(`request ${index}`, (check) => {
        const hashes = bytesOf(one.hashes.join(""));
        const hashBytes = (one.hashes[0] ?? "").length / 2;
        const frames = encodeLookupRequest({ tokens: one.num_tokens, hashBytes, hashes });
        check.equal("frames", frames.map(hex), one.frames);
        const read = decodeWireRequest(one.frames.map(bytesOf));
        check.equal("read", read, { kind: "lookup", tokens: one.num_tokens, hashBytes, hashes });
      }),
    );
    file.responses.forEach((one, index) =>
      report.run(`reply ${index}`, (check) => {
        const reply = { hitTokens: one.hit_tokens, tails: one.tail_key_boundaries };
        check.equal("bytes", hex(encodeLookupReply(reply)), one.bytes);
        check.equal("read", decodeLookupReply(bytesOf(one.bytes)), reply);
      }),
    );
    file.decode.forEach((one, index) =>
      report.run(`decode ${index}`, (check) =>
        check.equal("accepted", decodeLookupReply(bytesOf(one.bytes)) !== null, one.accepted),
      ),
    );
    return report;
  },
};

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text, "hex"));
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("hex");
}
