import { createTableBuffers, type TableDimensions, Tables } from "../../src/blocks/tables.ts";

/** Tables of one group with blocks of 16 tokens, as small as the test says. */
export function smallTables(
  dimensions: Pick<TableDimensions, "requestSlots" | "jobSlots" | "blockCount"> &
    Partial<TableDimensions>,
): Tables {
  return new Tables(
    createTableBuffers({
      tokensPerRequestMax: 64,
      tokensMax: 128,
      hashBlockSize: 16,
      hashLookaheadTokens: 0,
      extraEncoding: "pickle",
      blockSize: 16,
      groups: 1,
      stepSequencesMax: 0,
      ...dimensions,
    }),
  );
}
