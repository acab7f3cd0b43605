import { fail, showValue } from "../../../errors.ts";
import { hostName } from "./host-names.ts";

/** Origins of web pages that may use this server from a browser. */
export class AllowedOrigins {
  readonly #origins: ReadonlySet<string>;
  readonly #any: boolean;

  /** `*` is any page. Throws INVALID_VALUE for what is no origin. */
  constructor(origins: readonly string[]) {
    this.#any = origins.includes("*");
    this.#origins = new Set(origins.filter((origin) => origin !== "*").map(checkedOrigin));
  }

  has(origin: string): boolean {
    return this.#any || this.#origins.has(origin.toLowerCase());
  }
}

function checkedOrigin(given: string): string {
  if (given === "null") return given;
  const match = /^([a-z][a-z0-9+.-]*):\/\/([^/]+)\/?$/i.exec(given);
  if (match !== null && hostName(match[2] ?? "") !== null) return asBrowsersSend(given);
  return fail(
    "INVALID_VALUE",
    "--allowed-origins",
    undefined,
    `${showValue(given)} is no origin`,
    "Give scheme, host and port as in https://app.example.org or http://localhost:3000, or * for any.",
  );
}

/** Lower case, international names in ASCII, without the scheme's own port and a last slash. */
function asBrowsersSend(origin: string): string {
  return /^https?:/i.test(origin)
    ? new URL(origin).origin
    : origin.replace(/\/$/, "").toLowerCase();
}

/** Whether a page of this origin was served under this Host: by this server, or by the proxy before it. */
export function isOwnOrigin(origin: string, host: string | undefined): boolean {
  const [, scheme = "", authority = ""] = /^(https?):\/\/(.+)$/i.exec(origin) ?? [];
  if (authority === "" || host === undefined) return false;
  return withPort(authority, scheme) === withPort(host, scheme);
}

/** A proxy may speak https to the browser and http to this server: the port that is not written is the browser's. */
function withPort(authority: string, scheme: string): string | null {
  const name = hostName(authority);
  const [, port] = /:(\d+)$/.exec(authority) ?? [];
  return name === null ? null : `${name}:${port ?? (scheme.toLowerCase() === "https" ? 443 : 80)}`;
}
