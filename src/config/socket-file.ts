import { lstatSync } from "node:fs";
import { connect } from "node:net";

/** How a connection to a Unix socket fails when there is none, or nobody behind it. */
const NOBODY_LISTENS: readonly string[] = ["ENOENT", "ECONNREFUSED"];

/**
 * What lies where a Unix socket is to be made. "dead": a socket that nobody listens at, which may be removed; "other": a file, a
 * folder, a link, which is somebody's.
 */
export type SocketFileState = "absent" | "dead" | "living" | "other";

export async function socketFileState(path: string): Promise<SocketFileState> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return "absent";
  if (!found.isSocket()) return "other";
  return (await answers(path)) ? "living" : "dead";
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    // A living server whose backlog is full refuses with another code: its path is not free.
    socket.once("error", (error: NodeJS.ErrnoException) =>
      resolve(!NOBODY_LISTENS.includes(error.code ?? "")),
    );
  });
}
