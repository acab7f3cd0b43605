import { MooncakeKvError } from "../errors.ts";
import { AccessControl, type AccessOptions } from "../serving/http/access/access.ts";
import { type AccessFlags, API_KEY_VARIABLE } from "./access-flags.ts";

/** Throws INVALID_VALUE for what is no key, origin or host, before a model is loaded. */
export function accessOptions(
  flags: AccessFlags,
  environment: NodeJS.ProcessEnv,
): Required<AccessOptions> {
  const fromEnvironment = environment[API_KEY_VARIABLE] ?? "";
  const options = {
    apiKeys: flags.apiKey ?? (fromEnvironment === "" ? [] : [fromEnvironment]),
    allowedOrigins: listed("--allowed-origins", flags.allowedOrigins),
    allowedHosts: listed("--allowed-hosts", flags.allowedHosts),
  };
  checkAccess(options);
  return options;
}

function checkAccess(options: AccessOptions): void {
  void new AccessControl(options);
}

/** Several words, words with commas, or a JSON list as vLLM takes it. */
function listed(option: string, given: readonly string[] | undefined): readonly string[] {
  return (given ?? []).flatMap((text) => {
    if (!text.trimStart().startsWith("[")) return text.split(",").map((each) => each.trim());
    let list: unknown;
    try {
      list = JSON.parse(text);
    } catch {
      list = null;
    }
    if (Array.isArray(list) && list.every((each) => typeof each === "string")) return list;
    throw new MooncakeKvError({
      code: "INVALID_VALUE",
      field: option,
      value: text,
      problem: "is no list of texts",
      remedy: `Write ${option} FIRST SECOND, or ["FIRST", "SECOND"].`,
    });
  });
}
