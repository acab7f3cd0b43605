/** Counted since this incarnation started; plain numbers for metrics. */
export interface SaverCounters {
  existsKeys: number;
  putKeys: number;
  failedKeys: number;
  writtenBlocks: number;
  presentBlocks: number;
  bytes: number;
  /** Puts that found no room. */
  refusedPuts: number;
}

export function createSaverCounters(): SaverCounters {
  return {
    existsKeys: 0,
    putKeys: 0,
    failedKeys: 0,
    writtenBlocks: 0,
    presentBlocks: 0,
    bytes: 0,
    refusedPuts: 0,
  };
}
