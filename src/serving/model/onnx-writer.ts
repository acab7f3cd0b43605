import { ProtobufWriter } from "./protobuf-writer.ts";

/** Element types of ONNX's TensorProto, by the names used here. */
export const ELEMENT_TYPE = { float32: 1, int32: 6, int64: 7, bool: 9 } as const;
export type ElementType = (typeof ELEMENT_TYPE)[keyof typeof ELEMENT_TYPE];

/** A fixed size, or the name of a size that is known only at run time. */
export type Dimension = number | string;

export type Attribute = { int: number } | { float: number } | { ints: readonly number[] };

/** Weights that live in a file beside the graph; `location` is relative to the graph's folder. */
export interface ExternalData {
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

const IR_VERSION = 11;
const OPSET = 23;

/**
 * Builds one ONNX graph (opset 23) in memory, node by node, in execution order.
 *
 * Values are named by strings, as in ONNX. Constants are shared by value. Initializers are either inline bytes, which must
 * stay unchanged until `finish`, or references to an external data file.
 */
export class OnnxGraphBuilder {
  private readonly nodes: ProtobufWriter[] = [];
  private readonly initializers: ProtobufWriter[] = [];
  private readonly inputs: ProtobufWriter[] = [];
  private readonly outputs: ProtobufWriter[] = [];
  private readonly constants = new Map<string, string>();
  private readonly name: string;
  private valueCount = 0;

  constructor(name: string) {
    this.name = name;
  }

  input(name: string, type: ElementType, dimensions: readonly Dimension[]): string {
    this.inputs.push(valueInfo(name, type, dimensions));
    return name;
  }

  output(name: string, type: ElementType, dimensions: readonly Dimension[]): string {
    this.outputs.push(valueInfo(name, type, dimensions));
    return name;
  }

  initializer(
    name: string,
    type: ElementType,
    dimensions: readonly number[],
    data: Uint8Array | ExternalData,
  ): string {
    const tensor = new ProtobufWriter();
    for (const size of dimensions) tensor.integer(1, size);
    tensor.integer(2, type).text(8, name);
    if (data instanceof Uint8Array) tensor.bytes(9, data);
    else {
      const entries = { location: data.location, offset: data.offset, length: data.length };
      for (const [key, value] of Object.entries(entries)) {
        tensor.message(13, new ProtobufWriter().text(1, key).text(2, String(value)));
      }
      tensor.integer(14, 1);
    }
    this.initializers.push(tensor);
    return name;
  }

  /** An int64 constant: a scalar for a number, a vector for an array. */
  int64(value: number | readonly number[]): string {
    return this.constant(`int64:${JSON.stringify(value)}`, (name) => {
      const values = typeof value === "number" ? [value] : value;
      const data = BigInt64Array.from(values, (item) => BigInt(item));
      const dimensions = typeof value === "number" ? [] : [values.length];
      this.initializer(name, ELEMENT_TYPE.int64, dimensions, new Uint8Array(data.buffer));
    });
  }

  float32(value: number): string {
    return this.constant(`float32:${value}`, (name) => {
      this.initializer(
        name,
        ELEMENT_TYPE.float32,
        [],
        new Uint8Array(Float32Array.of(value).buffer),
      );
    });
  }

  /** Adds a node with several outputs and returns their names. */
  node(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>>,
    outputs: readonly string[],
  ): readonly string[] {
    const node = new ProtobufWriter();
    for (const input of inputs) node.text(1, input);
    for (const output of outputs) node.text(2, output);
    node.text(3, `${operator}_${this.nodes.length}`).text(4, operator);
    for (const [name, value] of Object.entries(attributes)) node.message(5, attribute(name, value));
    this.nodes.push(node);
    return outputs;
  }

  /** Adds a node with one output and returns its name. */
  operation(
    operator: string,
    inputs: readonly string[],
    attributes: Readonly<Record<string, Attribute>> = {},
    output: string = this.freshName(),
  ): string {
    this.node(operator, inputs, attributes, [output]);
    return output;
  }

  freshName(): string {
    return `value_${this.valueCount++}`;
  }

  /** The finished ModelProto. */
  finish(metadata: Readonly<Record<string, string>> = {}): Uint8Array<ArrayBuffer> {
    const graph = new ProtobufWriter();
    for (const node of this.nodes) graph.message(1, node);
    graph.text(2, this.name);
    for (const tensor of this.initializers) graph.message(5, tensor);
    for (const input of this.inputs) graph.message(11, input);
    for (const output of this.outputs) graph.message(12, output);
    const model = new ProtobufWriter()
      .integer(1, IR_VERSION)
      .text(2, "mooncake-kv")
      .message(7, graph);
    model.message(8, new ProtobufWriter().text(1, "").integer(2, OPSET));
    for (const [key, value] of Object.entries(metadata)) {
      model.message(14, new ProtobufWriter().text(1, key).text(2, value));
    }
    return model.finish();
  }

  private constant(key: string, create: (name: string) => void): string {
    const known = this.constants.get(key);
    if (known !== undefined) return known;
    const name = `constant_${this.constants.size}`;
    this.constants.set(key, name);
    create(name);
    return name;
  }
}

function valueInfo(
  name: string,
  type: ElementType,
  dimensions: readonly Dimension[],
): ProtobufWriter {
  const shape = new ProtobufWriter();
  for (const size of dimensions) {
    const dimension = new ProtobufWriter();
    shape.message(
      1,
      typeof size === "number" ? dimension.integer(1, size) : dimension.text(2, size),
    );
  }
  const tensorType = new ProtobufWriter().integer(1, type).message(2, shape);
  return new ProtobufWriter().text(1, name).message(2, new ProtobufWriter().message(1, tensorType));
}

function attribute(name: string, value: Attribute): ProtobufWriter {
  const writer = new ProtobufWriter().text(1, name);
  if ("int" in value) return writer.integer(3, value.int).integer(20, 2);
  if ("float" in value) return writer.float32(2, value.float).integer(20, 1);
  for (const item of value.ints) writer.integer(8, item);
  return writer.integer(20, 7);
}
