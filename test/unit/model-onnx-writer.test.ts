/**
 * Goal: the protobuf and ONNX writers produce the wire format.
 * Method: bytes worked out by hand from protobuf's definition; a tiny graph is run by the real runtime.
 */
import { describe, expect, test } from "vitest";
import * as runtime from "onnxruntime-node";
import { ELEMENT_TYPE, OnnxGraphBuilder } from "../../src/serving/model/onnx-writer.ts";
import { ProtobufWriter } from "../../src/serving/model/protobuf-writer.ts";

describe("protobuf", () => {
  const integer = (value: number): number[] => [...new ProtobufWriter().integer(1, value).finish()];

  test("integers", () => {
    expect(integer(0)).toEqual([0x08, 0]);
    expect(integer(127)).toEqual([0x08, 0x7f]);
    expect(integer(128)).toEqual([0x08, 0x80, 0x01]);
    expect(integer(300)).toEqual([0x08, 0xac, 0x02]);
    expect(integer(2 ** 32)).toEqual([0x08, 0x80, 0x80, 0x80, 0x80, 0x10]);
    expect(integer(-1)).toEqual([0x08, ...Array.from({ length: 9 }, () => 0xff), 0x01]);
    expect(integer(-(2 ** 33) - 5)).toEqual(varintByBigInt(-(2n ** 33n) - 5n));
    expect(integer(Number.MAX_SAFE_INTEGER)).toEqual(varintByBigInt(2n ** 53n - 1n));
    expect(integer(Number.MIN_SAFE_INTEGER)).toEqual(varintByBigInt(-(2n ** 53n) + 1n));
    expect(() => integer(0.5)).toThrow(/safe integer/);
    expect([...new ProtobufWriter().integer(16, 1).finish()]).toEqual([0x80, 0x01, 1]);
  });

  test("floats, texts, messages", () => {
    expect([...new ProtobufWriter().float32(2, 1.5).finish()]).toEqual([0x15, 0, 0, 0xc0, 0x3f]);
    expect([...new ProtobufWriter().text(1, "é").finish()]).toEqual([0x0a, 2, 0xc3, 0xa9]);
    const inner = new ProtobufWriter().integer(1, 150);
    expect([
      ...new ProtobufWriter().integer(1, 1).message(3, inner).integer(2, 2).finish(),
    ]).toEqual([0x08, 1, 0x1a, 3, 0x08, 0x96, 0x01, 0x10, 2]);
  });

  test("large and small byte strings mixed keep their order", () => {
    const large = new Uint8Array(5000).fill(7);
    const writer = new ProtobufWriter()
      .integer(1, 1)
      .bytes(2, large)
      .text(3, "x".repeat(900))
      .bytes(2, large);
    const bytes = writer.integer(1, 2).finish();
    expect(bytes).toHaveLength(writer.length);
    expect(writer.length).toBe(2 + 3 + 5000 + 3 + 900 + 3 + 5000 + 2);
    expect([...bytes.subarray(0, 6)]).toEqual([0x08, 1, 0x12, 0x88, 0x27, 7]);
    expect([...bytes.subarray(-3)]).toEqual([7, 0x08, 2]);
  });
});

test("a graph with all kinds of attributes and constants runs", async () => {
  const graph = new OnnxGraphBuilder("small");
  const input = graph.input("x", ELEMENT_TYPE.float32, ["rows", 4]);
  const weight = Float32Array.from({ length: 4 * 300 }, (_, index) => index % 5);
  const bytes = new Uint8Array(weight.buffer);
  const matrix = graph.initializer("w", ELEMENT_TYPE.float32, [4, 300], bytes);
  expect(graph.int64([2])).toBe(graph.int64([2]));
  expect(graph.int64([2])).not.toBe(graph.int64(2));
  const product = graph.operation("MatMul", [input, matrix]);
  const outputs = graph.node("Split", [product, graph.int64([100, 200])], { axis: { int: -1 } }, [
    "left",
    "right",
  ]);
  const scaled = graph.operation("Mul", [outputs[0]!, graph.float32(0.5)]);
  const activated = graph.operation("LeakyRelu", [scaled], { alpha: { float: 0.25 } });
  graph.operation("Transpose", [activated], { perm: { ints: [1, 0] } }, "y");
  graph.output("y", ELEMENT_TYPE.float32, [100, "rows"]);
  const session = await runtime.InferenceSession.create(graph.finish({ key: "value" }), {
    intraOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  const x = Float32Array.of(1, 0, 0, 0, 0, -1, 0, 2);
  const outputValues = await session.run({ x: new runtime.Tensor("float32", x, [2, 4]) });
  const y = outputValues.y!;
  expect(y.dims).toEqual([100, 2]);
  const expected = Array.from({ length: 100 }, (_, column) => {
    const rows = [weight[column]!, -weight[300 + column]! + 2 * weight[900 + column]!];
    return rows.map((value) => (value < 0 ? value * 0.125 : value * 0.5));
  });
  expect([...(y.data as Float32Array)]).toEqual(expected.flat());
  await session.release();
});

function varintByBigInt(value: bigint): number[] {
  const bytes = [0x08];
  let rest = BigInt.asUintN(64, value);
  for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return [...bytes, Number(rest)];
}
