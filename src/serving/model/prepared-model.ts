import type { LlamaConfig } from "./llama-config.ts";

/** The ONNX graph: inside the message, or a file (its weights may lie beside it in an external data file). */
export type GraphSource =
  | { readonly kind: "bytes"; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: "file"; readonly path: string };

/** The 256 bytes and a few specials, or a vocabulary file written when a GGUF file was converted. */
export type TokenizerSource =
  | { readonly kind: "bytes" }
  | { readonly kind: "file"; readonly path: string };

/** A model that is ready to be loaded. Plain data: it may be sent to a worker by structured clone. */
export interface PreparedModel {
  /** The name that requests and the pool know the model by. */
  readonly modelName: string;
  readonly graph: GraphSource;
  readonly config: LlamaConfig;
  readonly tokenizer: TokenizerSource;
  /** sha256 (hex) over the configuration and all weights as float32: equal exactly when equal tokens give equal KV bytes. */
  readonly weightsFingerprint: string;
  /** Longest sequence to serve: the model's own limit, or less when the caller asked for less. */
  readonly contextTokensMax: number;
  readonly blockSize: number;
  /** Bytes of one block: [layers][key, value][kvHeads][blockSize][headSize] float32. */
  readonly blockBytes: number;
}

/** Tells a person what preparing a model is doing. `fraction` is absent when it is unknown. */
export interface PrepareProgress {
  /** `notice`: something about the model that a person should read once. */
  readonly stage: "download" | "unpack" | "convert" | "notice";
  readonly text: string;
  readonly fraction?: number;
}
