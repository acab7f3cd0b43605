import { modelInvalid, modelUnsupported } from "./gguf-errors.ts";
import type { GgufFile } from "./gguf-reader.ts";
import type { GgufValue } from "./gguf-types.ts";

const OTHER_ARCHITECTURE =
  "Give a model of the plain Llama architecture (Llama, SmolLM, Mistral, TinyLlama and the like).";
const OTHER_MODEL = "Give a model without it, of the plain Llama architecture.";

/** Keys that are read, or that change neither numbers nor tokens. */
const UNDERSTOOD: ReadonlySet<string> = new Set([
  ...[
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
  ].map((key) => `llama.${key}`),
  ...[
    "model",
    "pre",
    "tokens",
    "token_type",
    "scores",
    "merges",
    "bos_token_id",
    "eos_token_id",
    "eot_token_id",
    "eom_token_id",
    "unknown_token_id",
    "seperator_token_id",
    "separator_token_id",
    "padding_token_id",
    "cls_token_id",
    "mask_token_id",
    "prefix_token_id",
    "suffix_token_id",
    "middle_token_id",
    "fim_pre_token_id",
    "fim_suf_token_id",
    "fim_mid_token_id",
    "fim_pad_token_id",
    "fim_rep_token_id",
    "fim_sep_token_id",
    "add_bos_token",
    "add_eos_token",
    "add_space_prefix",
  ].map((key) => `tokenizer.ggml.${key}`),
  "tokenizer.chat_template",
  "tokenizer.chat_templates",
  "tokenizer.huggingface.json",
]);

/** Keys that say a model is another one than we compute, unless they have this value. */
const NEUTRAL: ReadonlyMap<string, GgufValue> = new Map<string, GgufValue>([
  ["llama.expert_count", 0],
  ["llama.expert_used_count", 0],
  ["llama.attention.sliding_window", 0],
  ["llama.attention.causal", true],
  ["llama.attention.clamp_kqv", 0],
  ["llama.attention.max_alibi_bias", 0],
  ["llama.pooling_type", 0],
  ["llama.use_parallel_residual", false],
  ["llama.logit_scale", 1],
  ["llama.embedding_scale", 1],
  ["llama.residual_scale", 1],
  ["llama.rope.scaling.attn_factor", 1],
  ["llama.tensor_data_layout", "Meta AI original pth"],
  ["tokenizer.ggml.token_type_count", 1],
  ["tokenizer.ggml.add_sep_token", false],
  ["tokenizer.ggml.remove_extra_whitespaces", false],
]);

/**
 * Checks a file's keys against the one list of those that are understood. Throws UNSUPPORTED for one that may change numbers or
 * tokens, by its name; gives the others back, which a person should be told once. `general.*` describes a file, and other tools
 * write keys under names of their own.
 */
export function unknownKeysOf(file: GgufFile): readonly string[] {
  const unknown: string[] = [];
  for (const [key, value] of file.metadata) {
    if (UNDERSTOOD.has(key) || key.startsWith("general.")) continue;
    const neutral = NEUTRAL.get(key);
    if (neutral !== undefined && neutral === value) continue;
    if (key.startsWith("tokenizer.chat_template.")) continue;
    if (key.startsWith("llama.") || key.startsWith("tokenizer.")) {
      throw modelUnsupported(
        file.path,
        `the metadata key ${key} may change what the model computes, and is not built`,
        OTHER_MODEL,
        value,
      );
    }
    unknown.push(key);
  }
  return unknown;
}

/** Throws when the file is no whole model: it says what it is instead. */
export function checkWholeModel(file: GgufFile): void {
  const { metadata, path } = file;
  const parts = metadata.get("split.count");
  if (typeof parts === "number" && parts > 1) {
    const number = Number(metadata.get("split.no") ?? 0) + 1;
    throw modelUnsupported(
      path,
      `this is part ${number} of ${parts} of a model that is split over several files`,
      "Join them first, with llama-gguf-split --merge, and give the whole file.",
    );
  }
  const type = metadata.get("general.type") ?? "model";
  const adapter = metadata.get("adapter.type");
  if (type === "adapter" || adapter !== undefined) {
    throw modelUnsupported(
      path,
      `this is an adapter (${String(adapter ?? "of an unknown kind")}), no model`,
      "Merge it into its base model, with llama-export-lora, and give the result.",
    );
  }
  if (type !== "model") {
    throw modelUnsupported(path, "this is no model of text", "Give the model itself.", type);
  }
  if (file.tensors.size > 0) return checkArchitecture(file);
  if (metadata.has("tokenizer.ggml.tokens")) {
    throw modelUnsupported(
      path,
      "this is a vocabulary without weights",
      "Give the model's file, which has the weights too.",
    );
  }
  throw modelInvalid(path, "the file has no tensors", "Give a GGUF file of a Llama-family model.");
}

function checkArchitecture({ metadata, path }: GgufFile): void {
  const architecture = metadata.get("general.architecture");
  if (architecture === "llama") return;
  throw modelUnsupported(path, "its architecture is not llama", OTHER_ARCHITECTURE, architecture);
}
