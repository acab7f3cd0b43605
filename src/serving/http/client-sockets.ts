import type { Socket } from "node:net";

const waiting = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls `gone` once when the client's connection has ended, at once when it has already; the function that comes back takes it
 * off. The connection is the only sign that covers every request on it: an answer that has not had its turn yet, behind others
 * of the same connection, is told nothing by Node.
 */
export function onClientGone(socket: Socket, gone: () => void): () => void {
  if (socket.destroyed) {
    gone();
    return () => undefined;
  }
  const all = waiting.get(socket) ?? listen(socket);
  // A function of its own, so that one given twice is called twice.
  const entry = (): void => gone();
  all.add(entry);
  return () => all.delete(entry);
}

/** One listener for all requests of a connection. */
function listen(socket: Socket): Set<() => void> {
  const all = new Set<() => void>();
  waiting.set(socket, all);
  socket.once("close", () => {
    for (const entry of all) entry();
    all.clear();
  });
  return all;
}
