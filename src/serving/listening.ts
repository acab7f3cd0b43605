import { createServer } from "node:net";
import { MooncakeKvError } from "../errors.ts";

export interface ListenAddress {
  /** 127.0.0.1 unless given. */
  readonly host?: string | undefined;
  /** 0 takes a free one. */
  readonly port: number;
}

/**
 * Listens for a moment, so that an address that cannot be had is known before minutes go into loading a model. Throws as
 * `listenError` says. Somebody else may take the port later; the server's own start then says the same.
 */
export async function checkListenable({ host = "127.0.0.1", port }: ListenAddress): Promise<void> {
  const server = createServer();
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host, port }, resolve);
    });
  } catch (error) {
    throw listenError(error, { host, port });
  }
  await new Promise((resolve) => server.close(resolve));
}

/** INVALID_VALUE with the field for what a person can mend; everything else as it came. */
export function listenError(error: unknown, options: ListenAddress): unknown {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "EADDRINUSE" || code === "EACCES") {
    return new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "port",
      value: options.port,
      problem: code === "EADDRINUSE" ? "this port is in use" : "this port is not allowed",
      remedy: "Choose another port, or 0 for any free one.",
      cause: error,
    });
  }
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND") {
    return new MooncakeKvError({
      code: "INVALID_VALUE",
      field: "host",
      value: options.host,
      problem: "this machine has no such address",
      remedy: "Give an address of this machine, such as 127.0.0.1.",
      cause: error,
    });
  }
  return error;
}

/** Nobody but this machine reaches the address. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
