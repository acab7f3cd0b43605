import { once } from "node:events";
import { connect, createServer } from "node:net";

/** A TCP port of `host` that was free a moment ago. Another process may still take it: starters try again with a new one. */
export async function freePort(host = "127.0.0.1"): Promise<number> {
  const server = createServer();
  server.listen(0, host);
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** Whether nothing listens on the port of `host`. */
export async function isPortFree(port: number, host = "127.0.0.1"): Promise<boolean> {
  const server = createServer();
  const listening = new Promise<boolean>((resolve) => {
    server.once("listening", () => resolve(true));
    server.once("error", () => resolve(false));
  });
  server.listen(port, host);
  if (!(await listening)) return false;
  server.close();
  await once(server, "close");
  return true;
}

/** Whether something accepts connections at host:port within `timeoutMs`. */
export function canConnect(host: string, port: number, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(timeoutMs, () => finish(false));
    socket.once("connect", () => finish(true));
    socket.once("error", () => finish(false));
  });
}

export interface HostPort {
  readonly host: string;
  readonly port: number;
}

/** Splits "host:port" (also "[::1]:50051"); null when it is neither. */
export function parseHostPort(text: string): HostPort | null {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]+)):(\d{1,5})$/.exec(text.trim());
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host !== undefined && port >= 1 && port <= 65535 ? { host, port } : null;
}
