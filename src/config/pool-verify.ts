/** Which checksums of pool values are kept and looked at: a setting for each engine. */
import { MooncakeKvError } from "../errors.ts";
import { POOL_VERIFY, POOL_VERIFY_DEFAULT } from "./connector-config.ts";
import type { EngineKind, PoolVerify } from "./connector-config.ts";
import type { ConfigWarning } from "./warnings.ts";

const PATH = "kv_connector_extra_config.";
const OF_ENGINE: Readonly<Record<EngineKind, string>> = {
  mooncake: "pool_verify",
  local: "pool_verify_checksums",
};

/** Throws INVALID_VALUE or INVALID_TYPE. */
export function poolVerify(given: unknown): PoolVerify {
  const value = given ?? POOL_VERIFY_DEFAULT;
  const known = POOL_VERIFY.find((mode) => mode === value);
  if (known !== undefined) return known;
  throw new MooncakeKvError({
    code: typeof value === "string" ? "INVALID_VALUE" : "INVALID_TYPE",
    field: `${PATH}pool_verify`,
    value,
    problem: `must be one of ${POOL_VERIFY.join(", ")}`,
    remedy: `Write one of them, or remove it (default ${POOL_VERIFY_DEFAULT}).`,
  });
}

/** The other engine's setting is told, not obeyed; `off` asks for nothing. */
export function checksumsOfOtherEngine(
  extra: Readonly<Record<string, unknown>>,
  engine: EngineKind,
): ConfigWarning[] {
  const own = OF_ENGINE[engine];
  const others = Object.values(OF_ENGINE).filter((name) => name !== own);
  return others
    .filter((name) => (extra[name] ?? null) !== null && extra[name] !== "off")
    .map((name) => ({
      field: PATH + name,
      value: extra[name],
      problem: `has no effect with the engine ${engine}, whose setting for checksums is ${own}`,
      remedy: `Use ${own}, or remove it to silence this.`,
    }));
}
