/** ggml's token types. */
export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, byte: 6 } as const;

/** Longer tokens are not split: every split is tried. Real ones have some dozen characters. */
const MERGED_UNITS_MAX = 256;

interface Merge {
  readonly pair: string;
  readonly score: number;
  readonly leftLength: number;
}

/**
 * Merge rules that encode as a SentencePiece BPE vocabulary does, which has scores instead: the adjacent pair whose joined text
 * is the token of the highest score is joined first. Every way to split a token into two tokens becomes a rule, in the order of
 * the tokens' scores. Where scores are equal the order is that of `transformers`, which makes the rules that vLLM encodes with:
 * the longer left part first.
 */
export function sentencePieceMerges(
  tokens: readonly string[],
  scores: readonly number[],
): readonly string[] {
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const merges: Merge[] = [];
  for (const [token, id] of ids) {
    // A blank is written otherwise in pieces, so no text becomes such a token.
    if (token.length > MERGED_UNITS_MAX || token.includes(" ")) continue;
    const characters = Array.from(token);
    const score = scores[id] ?? 0;
    const splits: { pair: string; left: number; right: number; leftLength: number }[] = [];
    for (let cut = 1; cut < characters.length; cut++) {
      const [before, after] = [characters.slice(0, cut).join(""), characters.slice(cut).join("")];
      const [left, right] = [ids.get(before), ids.get(after)];
      if (left === undefined || right === undefined) continue;
      splits.push({ pair: `${before} ${after}`, left, right, leftLength: cut });
    }
    splits.sort((one, other) => one.left - other.left || one.right - other.right);
    for (const { pair, leftLength } of splits) merges.push({ pair, score, leftLength });
  }
  const rightLength = ({ pair, leftLength }: Merge): number => Array.from(pair).length - leftLength;
  // The sort is stable, as Python's is.
  return merges
    .sort(
      (one, other) =>
        other.score - one.score ||
        other.leftLength - one.leftLength ||
        rightLength(other) - rightLength(one),
    )
    .map(({ pair }) => pair);
}
