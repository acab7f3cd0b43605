/**
 * Which order the axes of the KV cache have, as vLLM 0.33's `resolve_kv_cache_layout` finds it. Keys do not tell of it: members of
 * one model that resolve differently find each other's blocks and read their bytes in another order.
 */
import { fail } from "../errors.ts";
import { blockShape, DEFAULT_KV_LAYOUT, KV_LAYOUTS, layerBytes } from "./kv-cache-config.ts";
import type { KvCacheConfig, KvLayout } from "./kv-cache-config.ts";
import type { ConfigWarning } from "./warnings.ts";

export const LAYOUT_VARIABLE = "VLLM_KV_CACHE_LAYOUT";
/** vLLM's, one more than this build can lay out. */
export type VllmKvLayout = KvLayout | "BHLNC";
export type LayoutSource = "kvCache.layout" | "environment" | "connector" | "model" | "default";

export interface KvLayoutChoice {
  readonly layout: KvLayout;
  readonly source: LayoutSource;
  /** Why, as a clause for the log. */
  readonly reason: string;
  readonly warnings: readonly ConfigWarning[];
}

/** What the choice depends on, of a model's KV cache. */
export type LayoutModel = Pick<KvCacheConfig, "groups" | "heads" | "tp" | "dtype" | "stateBytes">;

const ALIASES: Readonly<Record<string, KvLayout>> = { NHD: "LBNHC", HND: "LBHNC" };
const NAMES: readonly string[] = [...KV_LAYOUTS, "BHLNC", ...Object.keys(ALIASES)];
/** What each connector of vLLM asks for, unless the model has MLA. */
const REQUIRED_BY_CONNECTOR: Readonly<Record<string, KvLayout>> = { MooncakeConnector: "LBHNC" };
/** MultiConnectors within each other: more than anybody nests. */
const NESTING_MAX = 8;

/** VLLM_KV_CACHE_LAYOUT without its aliases; undefined: unset. Throws INVALID_VALUE for other names, as vLLM does: also the empty text. */
export function readLayoutVariable(text: string | undefined): VllmKvLayout | undefined {
  if (text === undefined) return undefined;
  if (!NAMES.includes(text)) {
    const remedy = `Use one of ${NAMES.join(", ")} (NHD is LBNHC, HND is LBHNC), in capitals, or unset it.`;
    fail("INVALID_VALUE", LAYOUT_VARIABLE, text, "is no KV cache layout", remedy);
  }
  return ALIASES[text] ?? (text as VllmKvLayout);
}

/**
 * vLLM's order: a layout that is stated wins outright; then VLLM_KV_CACHE_LAYOUT, which must fit the model; then what a connector
 * of the configuration asks for; else LBNHC. Attention backends of vLLM that support fewer layouts choose another default, and say so in
 * its log: nothing of them is known here. Throws INVALID_VALUE or UNSUPPORTED for an environment that asks for what cannot be.
 */
export function resolveKvLayout(options: {
  readonly stated: KvLayout | undefined;
  readonly requested: VllmKvLayout | undefined;
  /** Names of all connectors of the configuration: `connectorNames`. */
  readonly connectors: readonly string[];
  /** null: not known yet; a model whose groups are alike. */
  readonly model: LayoutModel | null;
}): KvLayoutChoice {
  const { stated, requested, connectors, model } = options;
  if (stated !== undefined) {
    const remedy = "Leave kvCache.layout out to follow the variable.";
    return keptLayout(stated, requested, "kvCache.layout", "kvCache.layout states it", remedy);
  }
  if (requested !== undefined) {
    const reason = `${LAYOUT_VARIABLE} asks for it`;
    return { layout: fitting(requested, model), source: "environment", reason, warnings: [] };
  }
  const asking = connectors.find((name) => REQUIRED_BY_CONNECTOR[name] !== undefined);
  const required = asking === undefined ? undefined : REQUIRED_BY_CONNECTOR[asking];
  if (required !== undefined && !hasLatentGroups(model)) {
    const reason = `${asking ?? ""} asks for it`;
    return { layout: required, source: "connector", reason, warnings: [] };
  }
  const reason = `it is vLLM's where neither kvCache.layout nor ${LAYOUT_VARIABLE} states another`;
  return { layout: DEFAULT_KV_LAYOUT, source: "default", reason, warnings: [] };
}

/** A layout that is what it is, with a warning when the environment asks for another. */
export function keptLayout(
  layout: KvLayout,
  requested: VllmKvLayout | undefined,
  source: LayoutSource,
  reason: string,
  remedy: string,
): KvLayoutChoice {
  if (requested === undefined || requested === layout)
    return { layout, source, reason, warnings: [] };
  const meant =
    valueOrder(requested) === valueOrder(layout)
      ? "values have the same bytes in both"
      : "members that follow it find these blocks and read their bytes in another order";
  const problem = `is not followed, the layout is ${layout}, because ${reason}; ${meant}`;
  const warning = { field: LAYOUT_VARIABLE, value: requested, problem, remedy };
  return { layout, source, reason, warnings: [warning] };
}

/** The line that each start logs: to be compared with vLLM's "Using ... KV cache layout." */
export function layoutLine({ layout, reason }: KvLayoutChoice): string {
  return `using ${layout} KV cache layout: ${reason}`;
}

/** Order of the axes within the value of one block: where the axis of blocks stands does not show in it. */
export function valueOrder(layout: VllmKvLayout): string {
  return layout.replace("B", "");
}

/** Connectors of a KV-transfer configuration (text or object), those within a MultiConnector too. What is none has none. */
export function connectorNames(transfer: unknown, depth = 0): string[] {
  const record = typeof transfer === "string" ? parsedOrNothing(transfer) : transfer;
  if (typeof record !== "object" || record === null || depth > NESTING_MAX) return [];
  const { kv_connector: name, kv_connector_extra_config: extra } = record as Readonly<
    Record<string, unknown>
  >;
  const inner: unknown =
    typeof extra === "object" && extra !== null && "connectors" in extra ? extra.connectors : [];
  return [
    ...(typeof name === "string" ? [name] : []),
    ...(Array.isArray(inner) ? inner.flatMap((each) => connectorNames(each, depth + 1)) : []),
  ];
}

/** The parser of the configuration says what is wrong with a text. */
function parsedOrNothing(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** A layout that the model's groups can have, and that this build can lay out. */
function fitting(requested: VllmKvLayout, model: LayoutModel | null): KvLayout {
  if (requested !== "BHLNC" && (blockCompact(requested) || !hasUnlikeShapes(model)))
    return requested;
  if (hasUnlikeShapes(model)) {
    const problem =
      "does not fit a model whose KV-cache groups have unlike shapes: each page has to be one run of bytes";
    const compact = KV_LAYOUTS.filter(blockCompact).join(", ");
    return fail("INVALID_VALUE", LAYOUT_VARIABLE, requested, problem, `Use one of ${compact}.`);
  }
  const problem = "this build cannot lay the KV cache out so: the heads of a block lie apart";
  const remedy = `Use one of ${KV_LAYOUTS.join(", ")}.`;
  return fail("UNSUPPORTED", LAYOUT_VARIABLE, requested, problem, remedy);
}

/** A page's heads, tokens and contents form one run: layer and block are the outermost axes. */
function blockCompact(layout: VllmKvLayout): boolean {
  return ["LB", "BL"].includes(layout.slice(0, 2));
}

/** vLLM compares heads, states and page bytes of each layer. */
function hasUnlikeShapes(model: LayoutModel | null): boolean {
  if (model === null) return false;
  const shapes = model.groups.map((group) => {
    const [heads, tokens] = group.kind === "mamba" ? [1, 1] : blockShape(model, group);
    return `${heads}:${tokens}:${layerBytes(model, group)}`;
  });
  return new Set(shapes).size > 1;
}

/** A model with MLA has one head, so that connectors need no order of heads. */
function hasLatentGroups(model: LayoutModel | null): boolean {
  return model?.groups.some(({ kind }) => kind === "mla" || kind === "swa_mla") === true;
}
