import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { ApiError } from "../errors.ts";
import { ApiKeys } from "./api-keys.ts";
import { AllowedHosts, hostName, isLoopbackName, nameOfAddress } from "./host-names.ts";
import { AllowedOrigins, isOwnOrigin } from "./origins.ts";

export interface AccessOptions {
  /** Keys of which a request must show one as `Authorization: Bearer KEY`. None: nobody is asked for one. */
  readonly apiKeys?: readonly string[] | undefined;
  /** Web pages that may use the server from a browser, beside its own. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /** Names under which the server is asked, beside its own: those of a reverse proxy. */
  readonly allowedHosts?: readonly string[] | undefined;
}

/** What is looked at of a request. `route`: as it was added, undefined when there is none. */
export interface AccessRequest {
  readonly method: string;
  readonly route: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

/** Routes that answer without a key, for probes and scrapers: they show no request and change nothing. */
export const OPEN_ROUTES: readonly string[] = ["/health", "/metrics"];
const READING_METHODS: readonly string[] = ["GET", "HEAD", "OPTIONS"];
/** Values of Sec-Fetch-Site: this server's own page, or a person who typed the address. */
const OWN_SITES: readonly string[] = ["same-origin", "none"];
const PREFLIGHT_SECONDS = 600;

/**
 * Who may ask: hosts (a web page can point a name of its own at this machine), origins (a web page can send requests that it may
 * not read the answers of) and API keys.
 */
export class AccessControl {
  readonly #keys: ApiKeys;
  readonly #origins: AllowedOrigins;
  readonly #hosts: AllowedHosts;
  readonly #hostsGiven: boolean;
  readonly #own = new Set<string>();
  #loopback = true;

  /** Throws INVALID_VALUE for a key, an origin or a host that is none. */
  constructor(options: AccessOptions) {
    this.#keys = new ApiKeys(options.apiKeys ?? []);
    this.#origins = new AllowedOrigins(options.allowedOrigins ?? []);
    this.#hosts = new AllowedHosts(options.allowedHosts ?? []);
    this.#hostsGiven = (options.allowedHosts ?? []).length > 0;
  }

  get keyNeeded(): boolean {
    return this.#keys.needed;
  }

  /** Call before the first request. `host`: the address as it was asked for, `address`: as it was bound. True: loopback. */
  listensOn(host: string, address: string): boolean {
    this.#own.add(nameOfAddress(host)).add(nameOfAddress(address));
    this.#loopback = isLoopbackName(nameOfAddress(address));
    if (!this.#loopback) this.#own.add(hostname().toLowerCase());
    return this.#loopback;
  }

  /** Throws ApiError 403 or 401 for a request that is not to be answered. */
  check({ method, route, headers }: AccessRequest): void {
    this.#checkHost(headers);
    const guarded = !READING_METHODS.includes(method) || route?.startsWith("/debug/") === true;
    if (guarded) this.#checkPage(headers);
    if (method === "OPTIONS" || this.#keys.accept(headers.authorization)) return;
    const reads = READING_METHODS.includes(method);
    if (reads && route !== undefined && OPEN_ROUTES.includes(route)) return;
    const text =
      "No API key, or a wrong one. Send the header 'Authorization: Bearer KEY' with the key that the server was started with.";
    throw new ApiError(401, text, "invalid_api_key");
  }

  /** Headers with which a browser lets the page of an allowed origin read the answer. */
  corsHeaders({ headers }: AccessRequest): Readonly<Record<string, string>> {
    const { origin } = headers;
    if (origin === undefined || !this.#origins.has(origin)) return {};
    return {
      "access-control-allow-origin": origin,
      "access-control-expose-headers": "retry-after",
      vary: "origin",
    };
  }

  /** What a browser asks for before it sends a page's request; null: the request is none of that kind. Throws 403. */
  preflight(request: AccessRequest): Readonly<Record<string, string>> | null {
    const { method, headers } = request;
    if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return null;
    const { origin = "" } = headers;
    if (!this.#origins.has(origin)) throw foreignPage(origin);
    const asked = headers["access-control-request-headers"];
    const local = headers["access-control-request-private-network"] === "true";
    return {
      ...this.corsHeaders(request),
      "access-control-allow-methods": "GET, HEAD, POST, DELETE",
      "access-control-allow-headers": asked ?? "authorization, content-type",
      "access-control-max-age": String(PREFLIGHT_SECONDS),
      ...(local ? { "access-control-allow-private-network": "true" } : {}),
    };
  }

  /** On loopback only known names; elsewhere the names are not known, unless they were given. */
  #checkHost({ host }: IncomingHttpHeaders): void {
    // Only clients that speak HTTP/1.0 leave it out; no browser does.
    if (host === undefined || !(this.#loopback || this.#hostsGiven)) return;
    if (!this.#knownHost(host)) throw foreignHost(host);
  }

  #knownHost(host: string): boolean {
    const name = hostName(host);
    if (name === null) return false;
    if (isLoopbackName(name) || this.#own.has(name) || this.#hosts.has(name)) return true;
    // No name server stands between an address and this machine.
    return !this.#loopback && isIP(name) !== 0;
  }

  /** Refuses what another site's page sends. Programs that are no browsers send neither header. */
  #checkPage({ origin, host, "sec-fetch-site": site }: IncomingHttpHeaders): void {
    if (origin !== undefined) {
      if (this.#origins.has(origin)) return;
      if (!isOwnOrigin(origin, host)) throw foreignPage(origin);
    }
    // What a later browser calls another relation is another page, too.
    if (site !== undefined && !OWN_SITES.includes(site)) throw foreignPage(origin ?? site);
    // A page reads what came from its own address without an origin; the name may be one that was pointed here.
    const page = origin !== undefined || site === "same-origin";
    if (page && !this.#knownHost(host ?? "")) throw foreignHost(host ?? "");
  }
}

function foreignPage(origin: string): ApiError {
  const text = `Requests of other web pages are refused ('${shown(origin)}'). Start the server with --allowed-origins to let that page use it.`;
  return new ApiError(403, text, "origin_not_allowed");
}

function foreignHost(host: string): ApiError {
  const text = `This server is not known as '${shown(host)}'. Ask it by its address, or start it with --allowed-hosts and that name.`;
  return new ApiError(403, text, "host_not_allowed");
}

function shown(text: string): string {
  return text.slice(0, 100).toWellFormed();
}
