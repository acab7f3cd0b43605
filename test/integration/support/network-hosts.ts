import { spawnSync } from "node:child_process";

/** A network namespace: a host of its own as far as sockets can tell. */
export interface NetworkHost {
  readonly name: string;
  readonly address: string;
  /** What a program is started with to run on this host. */
  readonly within: readonly string[];
  /** Bytes that have come in from the other host. */
  receivedBytes(): number;
}

export interface NetworkHosts {
  readonly hosts: readonly [NetworkHost, NetworkHost];
  /** Their processes must have ended. May be called again. */
  remove(): void;
}

function ip(...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync("ip", args, { encoding: "utf8" });
  if (error === undefined && status === 0) return stdout;
  const why = error === undefined ? stderr.trim() : error.message;
  throw new Error(
    `ip ${args.join(" ")}: ${why}. This test makes network namespaces: run it as root (in a container with the capabilities ` +
      "NET_ADMIN and SYS_ADMIN), on a machine with iproute2 (apt-get install iproute2).",
  );
}

/**
 * Two hosts with one wire between them and no other way to anywhere. Names carry the process's id; what a run leaves behind
 * that is killed half-way, `ip netns` lists. Throws where namespaces cannot be made, and says what is needed.
 */
export function makeNetworkHosts(): NetworkHosts {
  const names = ["a", "b"].map((letter) => `mkv${process.pid}${letter}`);
  const [first = "", second = ""] = names;
  const made: string[] = [];
  const remove = (): void => {
    process.off("exit", remove);
    // A wire goes with either of its ends.
    for (const name of made.splice(0)) ip("netns", "delete", name);
  };
  process.once("exit", remove);
  try {
    for (const name of names) {
      ip("netns", "add", name);
      made.push(name);
      ip("-n", name, "link", "set", "lo", "up");
    }
    ip("-n", first, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", second);
    const hosts = names.map((name, index) => connect(name, `10.213.7.${index + 1}`));
    const [one, two] = hosts;
    if (one === undefined || two === undefined) throw new Error("two hosts are made");
    return { hosts: [one, two], remove };
  } catch (error) {
    remove();
    throw error;
  }
}

function connect(name: string, address: string): NetworkHost {
  ip("-n", name, "address", "add", `${address}/24`, "dev", "wire");
  ip("-n", name, "link", "set", "wire", "up");
  return {
    name,
    address,
    within: ["ip", "netns", "exec", name],
    receivedBytes() {
      const links = JSON.parse(ip("-n", name, "-json", "-stats", "link", "show", "wire")) as {
        readonly stats64: { readonly rx: { readonly bytes: number } };
      }[];
      return links[0]?.stats64.rx.bytes ?? 0;
    },
  };
}
