import { isIP } from "node:net";
import { fail, showValue } from "../../../errors.ts";

/**
 * The name in a Host header or an origin's authority: lower case, without port, brackets and last dot; IP addresses in their one
 * canonical form. Null for what is none.
 */
export function hostName(authority: string): string | null {
  if (authority === "" || /[/\\@?#\s]/.test(authority)) return null;
  try {
    return plainName(new URL(`http://${authority}`).hostname);
  } catch {
    return null;
  }
}

function plainName(hostname: string): string {
  return hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
}

/** Of a name or address as `hostName` gives it: it leads to this machine, and nobody's name server can say otherwise. */
export function isLoopbackName(name: string): boolean {
  if (name === "localhost" || name === "::1") return true;
  return isIP(name) === 4 ? name.startsWith("127.") : /^::ffff:7f[0-9a-f]{2}:/.test(name);
}

/** Name of an address to listen on. */
export function nameOfAddress(address: string): string {
  return hostName(isIP(address) === 6 ? `[${address}]` : address) ?? address.toLowerCase();
}

/** Hosts under which the server may be asked. */
export class AllowedHosts {
  readonly #names: ReadonlySet<string>;
  readonly #suffixes: readonly string[];
  readonly #any: boolean;

  /** `*` is any host, `*.example.org` every name below it. Throws INVALID_VALUE for what is no host. */
  constructor(hosts: readonly string[]) {
    this.#any = hosts.includes("*");
    const others = hosts.filter((host) => host !== "*");
    this.#suffixes = others
      .filter((host) => host.startsWith("*."))
      .map((host) => `.${checkedName(host.slice(2), host)}`);
    this.#names = new Set(
      others.filter((host) => !host.startsWith("*.")).map((host) => checkedName(host, host)),
    );
  }

  has(name: string): boolean {
    if (this.#any || this.#names.has(name)) return true;
    return this.#suffixes.some((suffix) => name.endsWith(suffix));
  }
}

function checkedName(host: string, given: string): string {
  const name = isIP(host) === 6 ? nameOfAddress(host) : hostName(host);
  if (name !== null && !name.includes("*")) return name;
  return fail(
    "INVALID_VALUE",
    "--allowed-hosts",
    undefined,
    `${showValue(given)} is no host`,
    "Give names such as api.example.org, *.example.org, or * for any.",
  );
}
