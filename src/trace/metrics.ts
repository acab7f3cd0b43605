import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { MetricValueWithName } from "prom-client";
import { CounterReader, allFamilies, familyOffset, seriesFloats } from "./counters.ts";
import { seriesCount, seriesLabels } from "./families.ts";
import type { MetricFamily } from "./families.ts";

/** What is exposed under one pair of `model_name` and `engine` labels. */
export interface MetricsSource {
  readonly modelName: string;
  /** vLLM's engine index, "0" for the only one. */
  readonly engine: string;
  /** From createCounterBuffer. */
  readonly counters: SharedArrayBuffer;
  /** Called before each scrape, on the scraping thread: brings gauges up to date that are read rather than counted. */
  readonly refresh?: () => void;
}

interface OpenSource {
  readonly labels: Readonly<Record<string, string>>;
  readonly reader: CounterReader;
  readonly refresh: (() => void) | undefined;
}

/**
 * The Prometheus exposition of shared-memory counters. It has a registry of its own and keeps no values: each scrape reads
 * the counters of all sources. One thread.
 */
export class Metrics {
  readonly registry: Registry = new Registry();
  readonly #sources = new Set<OpenSource>();

  constructor() {
    for (const family of allFamilies()) register(family, this.#sources, this.registry);
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  /** Returns the function that takes the source out again. */
  addSource(source: MetricsSource): () => void {
    const open: OpenSource = {
      labels: { model_name: source.modelName, engine: source.engine },
      reader: new CounterReader(source.counters),
      refresh: source.refresh,
    };
    this.#sources.add(open);
    return () => void this.#sources.delete(open);
  }

  /** The text that a scrape gets. */
  async text(): Promise<string> {
    for (const source of this.#sources) source.refresh?.();
    return this.registry.metrics();
  }
}

function register(
  family: MetricFamily,
  sources: ReadonlySet<OpenSource>,
  registry: Registry,
): void {
  const { name, help } = family;
  const labelNames = ["model_name", "engine", ...family.labels.map((label) => label.name)];
  const first = familyOffset(family);
  const each = (visit: (labels: Record<string, string>, value: number) => void): void => {
    for (const source of sources)
      for (let series = 0; series < seriesCount(family); series++)
        visit(
          { ...source.labels, ...seriesLabels(family, series) },
          source.reader.sum(first + series),
        );
  };
  if (family.kind === "histogram") {
    new SharedHistogram(family, labelNames, sources, registry);
  } else if (family.kind === "counter") {
    new Counter({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        each((labels, value) => this.inc(labels, value));
      },
    });
  } else {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        each((labels, value) => this.set(labels, value));
      },
    });
  }
}

/** prom-client has no way to set a histogram's buckets from outside, so both of its ways to read values are replaced. */
class SharedHistogram extends Histogram {
  readonly #family: MetricFamily;
  readonly #sources: ReadonlySet<OpenSource>;

  constructor(
    family: MetricFamily,
    labelNames: string[],
    sources: ReadonlySet<OpenSource>,
    registry: Registry,
  ) {
    const { name, help, buckets } = family;
    super({ name, help, labelNames, buckets: [...buckets], registers: [registry] });
    this.#family = family;
    this.#sources = sources;
  }

  override get(): ReturnType<Histogram["get"]> {
    return this.getForPromString();
  }

  getForPromString(): ReturnType<Histogram["get"]> {
    const { name, help } = this.#family;
    const values = [...this.#sources].flatMap((source) => histogramValues(this.#family, source));
    // prom-client prints the type as a word; its declarations have numbers.
    const type = "histogram" as unknown as Awaited<ReturnType<Histogram["get"]>>["type"];
    return Promise.resolve({
      name,
      help,
      type,
      aggregator: "sum",
      collect: () => undefined,
      values,
    });
  }
}

function histogramValues(family: MetricFamily, source: OpenSource): MetricValueWithName<string>[] {
  const { name, buckets } = family;
  const floats = seriesFloats(family);
  const values: MetricValueWithName<string>[] = [];
  for (let series = 0; series < seriesCount(family); series++) {
    const first = familyOffset(family) + series * floats;
    const labels = { ...source.labels, ...seriesLabels(family, series) };
    // The count is the sum of the buckets that were read, so that the lines of one scrape agree with each other.
    let count = 0;
    for (let bucket = 0; bucket <= buckets.length; bucket++) {
      count += source.reader.sum(first + bucket);
      const le = buckets[bucket] ?? "+Inf";
      values.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: count });
    }
    values.push({
      metricName: `${name}_sum`,
      labels,
      value: source.reader.sum(first + floats - 1),
    });
    values.push({ metricName: `${name}_count`, labels, value: count });
  }
  return values;
}
