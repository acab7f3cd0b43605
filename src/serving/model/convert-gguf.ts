import { createHash } from "node:crypto";
import {
  existsSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { MooncakeKvError } from "../../errors.ts";
import { ExternalDataFile } from "./external-data-file.ts";
import { llamaConfigOf, llamaWeightsOf } from "./gguf-llama.ts";
import { checkWholeModel, unknownKeysOf } from "./gguf-keys.ts";
import { GgufFile } from "./gguf-reader.ts";
import { tokenizerFileOf } from "./gguf-tokenizer.ts";
import type { LlamaConfig } from "./llama-config.ts";
import { buildLlamaGraph } from "./llama-graph.ts";
import { makeCacheFolder, makePartialFolder, removeStalePartials } from "./partial-folder.ts";
import type { PrepareProgress } from "./prepared-model.ts";
import { WeightsFingerprint } from "./weights-fingerprint.ts";

/** Counts up whenever the graph or a file's format changes, so that older conversions are made anew. */
const CONVERTER_VERSION = 4;

export interface ConvertedModel {
  readonly graphPath: string;
  readonly tokenizerPath: string;
  readonly config: LlamaConfig;
  readonly weightsFingerprint: string;
}

interface Manifest {
  readonly converterVersion: number;
  readonly source: string;
  readonly graphBytes: number;
  readonly dataBytes: number;
  readonly config: LlamaConfig;
  readonly weightsFingerprint: string;
}

/**
 * The ONNX graph, external weights and vocabulary of a GGUF file, made once and kept in `cacheFolder`.
 *
 * Keyed by the file's path, checked against its size, inode and times: a changed file is converted anew in the old one's place.
 * Everything is written to a folder under a temporary name that is renamed last, so a half-made conversion never counts, and
 * two processes may convert at once. Blocks the calling thread while it converts (seconds for a small model); needs four bytes
 * of disk for each weight. Throws the reader's errors, and CAPACITY when the disk is full.
 */
export function convertGguf(
  path: string,
  cacheFolder: string,
  onProgress: (progress: PrepareProgress) => void,
): ConvertedModel {
  const file = new GgufFile(path);
  try {
    const realPath = realpathSync(path);
    const key = createHash("sha256").update(realPath).digest("hex").slice(0, 12);
    const folder = join(cacheFolder, "converted", `${basename(realPath)}-${key}`);
    const source = identityOf(realPath);
    const known = readConversion(folder, source);
    if (known !== undefined) return known;
    makeCacheFolder(dirname(folder));
    removeStalePartials(dirname(folder));
    const partial = makePartialFolder(folder);
    try {
      writeConversion(file, partial, source, onProgress);
      return putInPlace(partial, folder, source);
    } catch (error) {
      throw describeWriteError(error, cacheFolder);
    } finally {
      rmSync(partial, { recursive: true, force: true });
    }
  } finally {
    file.close();
  }
}

/** What tells one content of a path from another without reading it. */
function identityOf(realPath: string): string {
  const { size, ino, mtimeNs, ctimeNs } = statSync(realPath, { bigint: true });
  return [size, ino, mtimeNs, ctimeNs].join("-");
}

function writeConversion(
  file: GgufFile,
  folder: string,
  source: string,
  onProgress: (progress: PrepareProgress) => void,
): void {
  checkWholeModel(file);
  const unknown = unknownKeysOf(file);
  const config = llamaConfigOf(file);
  // The tokenizer first: a file that cannot be served fails before the long part.
  const tokenizer = tokenizerFileOf(file, config.vocabularySize);
  if (unknown.length > 0) {
    const text = `${basename(file.path)} has metadata that is not used: ${unknown.slice(0, 20).join(", ")}`;
    onProgress({ stage: "notice", text });
  }
  const fingerprint = new WeightsFingerprint(config);
  const data = new ExternalDataFile(join(folder, "model.data"));
  const weightCount = config.layerCount * 9 + 5 - (config.tiedEmbedding ? 1 : 0);
  let done = 0;
  let graph: Uint8Array;
  try {
    const sink = fingerprint.through((_name, bytes) => {
      done++;
      onProgress({
        stage: "convert",
        text: `converting ${basename(file.path)}`,
        fraction: done / weightCount,
      });
      return data.append(bytes);
    });
    graph = buildLlamaGraph(config, llamaWeightsOf(file, config), sink);
  } finally {
    data.close();
  }
  writeFileSync(join(folder, "model.onnx"), graph);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  const manifest: Manifest = {
    converterVersion: CONVERTER_VERSION,
    source,
    graphBytes: graph.byteLength,
    dataBytes: data.length,
    config,
    weightsFingerprint: fingerprint.finish(),
  };
  writeFileSync(join(folder, "manifest.json"), JSON.stringify(manifest, null, 2));
}

/** Renames the finished folder; when another process was faster with the same file, its conversion is taken. */
function putInPlace(partial: string, folder: string, source: string): ConvertedModel {
  const ATTEMPTS = 3;
  for (let attempt = 1; ; attempt++) {
    const other = readConversion(folder, source);
    if (other !== undefined) return other;
    rmSync(folder, { recursive: true, force: true });
    try {
      renameSync(partial, folder);
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

function readConversion(folder: string, source: string): ConvertedModel | undefined {
  const graphPath = join(folder, "model.onnx");
  const tokenizerPath = join(folder, "tokenizer.json");
  const dataPath = join(folder, "model.data");
  const manifestPath = join(folder, "manifest.json");
  if (![graphPath, tokenizerPath, dataPath, manifestPath].every((path) => existsSync(path)))
    return undefined;
  let manifest: Manifest;
  try {
    manifest = JSON.parse(readFileSync(manifestPath, "utf8")) as Manifest;
  } catch {
    return undefined;
  }
  if (manifest.converterVersion !== CONVERTER_VERSION || manifest.source !== source)
    return undefined;
  if (
    statSync(graphPath).size !== manifest.graphBytes ||
    statSync(dataPath).size !== manifest.dataBytes
  ) {
    return undefined;
  }
  return {
    graphPath,
    tokenizerPath,
    config: manifest.config,
    weightsFingerprint: manifest.weightsFingerprint,
  };
}

function describeWriteError(error: unknown, cacheFolder: string): unknown {
  if (!(error instanceof Error && "code" in error) || error.code !== "ENOSPC") return error;
  return new MooncakeKvError({
    code: "CAPACITY",
    field: cacheFolder,
    problem: "the disk of the model cache is full",
    remedy:
      "Free space there (four bytes for each weight are needed) or choose another cache folder.",
    cause: error,
  });
}
