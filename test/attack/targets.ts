/** Every door that is attacked; a new one is a file in targets/ and a line here. */
import type { Target } from "./attack.ts";
import { CONFIGURATIONS } from "./targets/configurations.ts";
import { GGUF_FILES } from "./targets/gguf-files.ts";
import { HOOKS } from "./targets/hooks.ts";
import { HTTP_BODIES } from "./targets/http-bodies.ts";
import { POOL_RECORDS } from "./targets/pool-records.ts";
import { POOL_VALUES } from "./targets/pool-values.ts";

export const TARGETS: readonly Target[] = [
  ...CONFIGURATIONS,
  ...POOL_VALUES,
  POOL_RECORDS,
  ...HTTP_BODIES,
  GGUF_FILES,
  HOOKS,
];
