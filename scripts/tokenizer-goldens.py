"""Writes the character tables of the tokenizers and their golden values, out of the original's behaviour.

The original is Hugging Face's `tokenizers` (Rust, with Oniguruma's regular expressions), which vLLM encodes prompts with. Every
code point is put to it, so the tables do not depend on the Unicode version of the Node that reads them. Usage, with a virtual
environment that has `tokenizers` and `transformers` (no other file of the project needs them):

    python scripts/tokenizer-goldens.py

It writes src/serving/model/character-classes.ts and test/unit/golden/tokenizers.json.gz; the versions used stand in both.
"""
import base64, gzip, json, pathlib, struct, zlib
import tokenizers, transformers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers.convert_slow_tokenizer import generate_merges

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSIONS = f"tokenizers {tokenizers.__version__}, transformers {transformers.__version__}"
STRINGS = 20_000
SEED = 20_240_229
CODE_POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
EVERYTHING = "".join(map(chr, CODE_POINTS))


def ranges(points):
    found = []
    for point in sorted(points):
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def matched_by(pattern):
    """Code points that the pattern, which takes one character, matches in Oniguruma."""
    rest = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(EVERYTHING)
    unmatched = set()
    for _, (start, end) in rest:
        unmatched.update(range(start, end))
    return ranges(point for index, point in enumerate(CODE_POINTS) if index not in unmatched)


def digits():
    """Code points that the pre-tokenizer Digits sets apart: Rust's char::is_numeric, another Unicode version than Oniguruma's."""
    text = "".join("aa" + chr(point) for point in CODE_POINTS) + "aa"
    cuts = set()
    for _, (start, end) in pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text):
        cuts.update((start, end))
    return ranges(p for i, p in enumerate(CODE_POINTS) if 3 * i + 2 in cuts and 3 * i + 3 in cuts)


def base36(number):
    text = ""
    while True:
        text = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36] + text
        number //= 36
        if number == 0:
            return text


def table(name, doc, found):
    """Distance from the end of the last range, and how many code points more than one; both in base 36."""
    words, last = [], 0
    for low, high in found:
        words.append(base36(low - last) + ("" if low == high else "+" + base36(high - low)))
        last = high
    lines, line = [], ""
    for word in words:
        if len(line) + len(word) > 105:
            lines.append(line)
            line = ""
        line += word + " "
    lines.append(line.rstrip())
    body = "\n".join(f'    {json.dumps(text)} +' for text in lines)[:-2]
    return f"  /** {doc} */\n  {name}: classOf(\n{body},\n  ),\n"


LETTER, NUMBER, SPACE = matched_by(r"\p{L}"), matched_by(r"\p{N}"), matched_by(r"\s")
NUMERIC = digits()
FOLDS = {letter: matched_by(f"(?i:{letter})") for letter in "strevmld"}


def write_tables():
    folds = "".join(
        f'    {letter}: "{"".join(chr(point) for low, high in FOLDS[letter] for point in range(low, high + 1))}",\n'
        for letter in sorted(FOLDS)
    )
    tables = "".join([
        table("letter", "`\\p{L}` of Oniguruma.", LETTER),
        table("number", "`\\p{N}` of Oniguruma.", NUMBER),
        table("space", "`\\s` of Oniguruma.", SPACE),
        table("digit", "What the pre-tokenizer Digits sets apart.", NUMERIC),
    ])
    text = f"""/** Written by scripts/tokenizer-goldens.py out of the behaviour of {VERSIONS}. */
export const CHARACTERS_FROM = {json.dumps(VERSIONS)};

/** What each class of the original's regular expressions matches, as the inside of a JavaScript character class. */
export const CHARACTER_CLASS = {{
{tables}  /** A letter in a group that ignores the case. */
  folded: {{
{folds}  }},
}} as const;

/** `table`: for each range its distance from the last one's end and, after "+", its length less one; base 36. */
function classOf(table: string): string {{
  const escaped = (point: number): string => `\\\\u{{${{point.toString(16)}}}}`;
  let at = 0;
  return table
    .split(" ")
    .map((word) => {{
      const [distance = "", more] = word.split("+");
      const low = (at += Number.parseInt(distance, 36));
      if (more === undefined) return escaped(low);
      at += Number.parseInt(more, 36);
      return `${{escaped(low)}}-${{escaped(at)}}`;
    }})
    .join("");
}}
"""
    (ROOT / "src/serving/model/character-classes.ts").write_text(text)


def edges(found):
    """The first and the last of each range with their neighbours outside."""
    points = {point for low, high in found for point in (low - 1, low, high, high + 1)}
    return [chr(p) for p in sorted(points) if 0 <= p < 0x110000 and not 0xD800 <= p < 0xE000]


SPECIALS = ["<unk>", "<s>", "</s>", "<|end|>", "<|end|>x", "<user>"]
POOLS = [
    ["   ½", " ٣", "x ² y", "\r\n１", "½", "²", "③", "Ⅷ", "一", "٣٤", "१२", "１２", "𝟘", "𐄇"],
    ["the", "there", "in", "and", "Hello", "world", "I", "don", "token", "naïve", "straße", "ПРИВЕТ", "你好", "日本語"],
    [" ", "  ", "   ", "\t", " ", " ", " "],
    [chr(p) for low, high in SPACE for p in range(low, high + 1)] + list("\u180e\u200b\u200c\u200d\ufeff\u2060\u00ad\u001c\u001f"),
    ["\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\u2028", "\u2029", "\u0085", "\v", "\f"],
    ["'s", "'S", "'\u017f", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'Ll", "'d", "\u2019s", "'x", "'", "s", "'\u1e9e", "'\ufb06"],
    ["0", "1", "12", "123", "1234", "12345", "1.5", "1,000", "0x1F"],
    [".", ",", "!", "?", "-", "--", "…", "_", "(", ")", "{", "}", "</", "/>", "$", "€", "+", "=", "```", "\"", "\\", "#"],
    ["😀", "👩‍👩‍👧", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "1️⃣"],
    ["e\u0301", "\u0301", "\u0300\u0323", "ก็", "क्ष", "مُحَمَّد", "שָׁלוֹם", "\u20e3", "\ufe0f", "각", "ﬁ", "Å", "ﷺ"],
    SPECIALS + ["<", "<|", "|>", "<0x41>", "▁", "▁the", "<|end", "Ġ", "Ċ"],
    edges(LETTER), edges(NUMBER), edges(NUMERIC), edges(SPACE),
    {"ranges": LETTER}, {"ranges": NUMERIC}, {"ranges": [[0, 0x7F]]}, {"ranges": [[0x80, 0x3FF]]},
    {"ranges": [[0, 0xD7FF], [0xE000, 0xFFFF]]}, {"ranges": [[0, 0xD7FF], [0xE000, 0x10FFFF]]},
]


def strings():
    """Drawn by a generator that the test has too."""
    state = SEED

    def below(count):
        nonlocal state
        state ^= (state << 13) & 0xFFFFFFFF
        state ^= state >> 17
        state ^= (state << 5) & 0xFFFFFFFF
        return state % count

    for _ in range(STRINGS):
        text = ""
        for _ in range(1 + below(10)):
            pool = POOLS[below(len(POOLS))]
            if isinstance(pool, dict):
                low, high = pool["ranges"][below(len(pool["ranges"]))]
                atom = chr(low + below(high - low + 1))
            else:
                atom = pool[below(len(pool))]
            text += atom * (1 + below(3) if below(5) == 0 else 1)
        yield text


TEXTS = list(strings())
# As the models' own tokenizer.json files have it.
PRE_TOKENIZERS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
    "smollm": pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True),
    ]),
    "llama-bpe": pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ), "isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
    ]),
}


def digest(rows):
    """Sixteen bits of each row's CRC-32."""
    short = [zlib.crc32(row) & 0xFFFF for row in rows]
    return base64.b64encode(struct.pack(f"<{len(short)}H", *short)).decode()


def added(contents):
    return [AddedToken(content, special=content != "<user>", normalized=False) for content in contents]


def ids_digest(tokenizer, strings=STRINGS):
    encoded = tokenizer.encode_batch(TEXTS[:strings], add_special_tokens=False)
    return digest(struct.pack(f"<{len(one.ids)}I", *one.ids) for one in encoded)


def byte_level(name):
    pre = PRE_TOKENIZERS[name]
    trained = Tokenizer(models.BPE(ignore_merges=name == "llama-bpe"))
    trained.pre_tokenizer = pre
    # SmolLM2's vocabulary lacks bytes that no text of its training had.
    alphabet = {"limit_alphabet": 200} if name == "smollm" else {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=1500, show_progress=False, max_token_length=16, **alphabet))
    model = json.loads(trained.to_str())["model"]
    # Whole words that no merge makes: only a tokenizer that ignores merges finds them.
    vocabulary = dict(model["vocab"])
    for word in ["Ġthere", "Hello", "123"]:
        vocabulary.setdefault(word, len(vocabulary))
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = pre
    tokenizer.add_tokens(added(["<s>", "<|end|>", "<user>"]))
    tokens = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    types = [4 if token == "<user>" else 3 if token in ("<s>", "<|end|>") else 1 for token in tokens]
    return {
        "tokens": tokens, "tokenTypes": types, "merges": [" ".join(pair) for pair in merges],
        "pieces": digest("\0".join(piece for piece, _ in pre.pre_tokenize_str(text)).encode() for text in TEXTS),
        # The pieces of all strings are compared; their merging needs fewer.
        "ids": ids_digest(tokenizer, 5_000),
    }


def sentence_piece(add_space_prefix):
    blank = normalizers.Replace(" ", "▁")
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), blank]) if add_space_prefix else blank
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizer
    trained.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=1500, limit_alphabet=300, show_progress=False, max_token_length=12))
    learnt = [t for t, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1])]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [t for t in learnt if len(t) > 1] + ["aa", "aaa", "▁▁"] + [t for t in learnt if len(t) == 1]
    tokens = list(dict.fromkeys(tokens + [t for t in pieces if t != "<user>"])) + ["<user>"]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 260) + [4]
    # Scores as SentencePiece writes them; some are equal, as in vocabularies that were joined.
    scores = [0.0] * 259 + [-float(index // 2 if index > 1000 else index) for index in range(len(tokens) - 259)]
    vocabulary = {token: id for id, token in enumerate(tokens)}
    merges = generate_merges(vocabulary, dict(zip(tokens, scores)))
    tokenizer = Tokenizer(models.BPE(
        vocab=vocabulary, merges=[tuple(pair) for pair in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    tokenizer.add_tokens(added(["<unk>", "<s>", "</s>", "<user>"]))
    return {"tokens": tokens, "tokenTypes": types, "scores": scores, "ids": ids_digest(tokenizer)}


def write_goldens():
    golden = {
        "versions": VERSIONS, "strings": STRINGS, "seed": SEED, "pools": POOLS,
        "byteLevel": {name: byte_level(name) for name in PRE_TOKENIZERS},
        "sentencePiece": {"prefix": sentence_piece(True), "plain": sentence_piece(False)},
        "samples": [[text, [piece for piece, _ in PRE_TOKENIZERS["smollm"].pre_tokenize_str(text)]] for text in TEXTS[:3]],
    }
    packed = gzip.compress(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0)
    path = ROOT / "test/unit/golden/tokenizers.json.gz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    print(path, len(packed))


write_tables()
write_goldens()
