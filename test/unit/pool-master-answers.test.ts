/**
 * Goal: whatever answers at the master's metrics address, a pool command says so in bounded time and memory.
 * Method: a server on loopback that answers what no master does.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { MasterAdmin } from "../../src/pool/master-admin.ts";

const DEEP = "[".repeat(100_000) + "]".repeat(100_000);
const server = createServer((_request, response) => void response.end(body));
let body = "";

afterEach(() => void server.close());

async function admin(): Promise<MasterAdmin> {
  if (!server.listening) await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return new MasterAdmin({ host: "127.0.0.1", port });
}

test.each([
  ["no JSON", "{"],
  ["deep lists", DEEP],
  ["a deep field", `{"segments":{"a":${DEEP}}}`],
])("%s is no answer of a master", async (_what, text) => {
  body = text;
  await expect((await admin()).segments()).rejects.toMatchObject({ code: "INVALID_VALUE" });
  expect(await (await admin()).isServing()).toBe(false);
});

test("fields of other kinds are not numbers or texts", async () => {
  body = `{"segments":[{"segment_name":${DEEP},"size_bytes":${DEEP},"allocator_used_bytes":"7"},${DEEP}]}`;
  const [segment, ...more] = await (await admin()).segments();
  expect(more).toEqual([]);
  expect(segment).toMatchObject({ name: "", bytesUsed: 7, bytesMax: Number.NaN });
});
