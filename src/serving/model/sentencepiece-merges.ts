/** ggml's token types. */
export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, byte: 6 } as const;

interface Merge {
  readonly pair: string;
  readonly score: number;
}

/**
 * Merge rules that encode as a SentencePiece BPE vocabulary does, which has scores instead: the adjacent pair whose joined text
 * is the token of the highest score is joined first. Every way to split a token into two tokens becomes a rule, in the order of
 * the tokens' scores.
 */
export function sentencePieceMerges(
  tokens: readonly string[],
  tokenTypes: readonly number[],
  scores: readonly number[],
): readonly string[] {
  const joinable = new Set(tokens.filter((_, id) => tokenTypes[id] === TOKEN_TYPE.normal));
  const merges: Merge[] = [];
  tokens.forEach((token, id) => {
    if (!joinable.has(token) || tokenTypes[id] !== TOKEN_TYPE.normal) return;
    const characters = Array.from(token);
    for (let cut = 1; cut < characters.length; cut++) {
      const left = characters.slice(0, cut).join("");
      const right = characters.slice(cut).join("");
      if (joinable.has(left) && joinable.has(right))
        merges.push({ pair: `${left} ${right}`, score: scores[id] ?? 0 });
    }
  });
  // The sort is stable: splits of one token stay together.
  return merges.sort((left, right) => right.score - left.score).map(({ pair }) => pair);
}
