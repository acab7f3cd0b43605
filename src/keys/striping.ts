/**
 * Which chunks a rank puts. Ranks that hold identical bytes of a group share the work: this one puts the chunks (absolute
 * index in the request) with chunk % putStep === putPhase; the phase is (tp rank + group) % putStep (see poolKeyPrefixes).
 */
export function putsChunk(chunk: number, putStep: number, putPhase: number): boolean {
  return chunk % putStep === putPhase;
}

/** How many of the chunks [from, to) the rank puts. */
export function putChunkCount(from: number, to: number, putStep: number, putPhase: number): number {
  if (to <= from) return 0;
  // Chunks below n with the phase: those up to the last whole turn, and the one of the turn begun.
  const below = (limit: number): number => Math.floor((limit + putStep - 1 - putPhase) / putStep);
  return below(to) - below(from);
}
