import { allFamilies } from "./counters.ts";
import { TRACE_EVENTS } from "./events.ts";
import type { TraceEventDescription } from "./events.ts";
import type { MetricFamily } from "./families.ts";

/**
 * The reference pages docs/events.md and docs/metrics.md, made from the closed sets themselves. A test compares the files
 * with these texts, so a page cannot fall behind the code.
 */
export function eventsReference(): string {
  const rows = Object.entries<TraceEventDescription>(TRACE_EVENTS).map(([name, event]) => {
    const [first, second] = event.arguments;
    return `| ${event.number} | \`${name}\` | ${event.phase} | ${event.name} | ${first} | ${second} | ${event.description} |`;
  });
  return `# Trace events

Actors record these events, and no others, in bounded rings in shared memory. Each record has the event's number, the
request as slot and generation (-1 for none), two arguments, the time in microseconds since the start of the process's
trace, and the epoch of the actor. The lane of an event is the actor that recorded it.

A begin and its end pair when lane, name and request are equal and, where they have an argument \`step\` or \`batch\`, when
that is equal too. Of \`load\` and \`save\` a request may have several open at once; there the oldest ends first.

An actor never waits for the trace: when its ring is full, new events are dropped and counted
(\`mooncake_kv_trace_lost_events_total\`, and the counter \`lost trace events\` in the exported file).

In the exported file (Chrome trace JSON, open it in ui.perfetto.dev) every actor is a thread. Slices are asynchronous events
with the request as id; \`model\` and \`hash\` are slices on their thread. Arguments carry \`slot\`, \`generation\`, the text id as
\`request\` where it is known, and \`actorEpoch\`. Marks: \`unfinished\` for a slice that never ended, \`beginMissing\` for an end
whose begin was not recorded.

| Number | Event | Phase | Name in the trace | First argument | Second argument | Meaning |
|---|---|---|---|---|---|---|
${rows.join("\n")}
`;
}

export function metricsReference(): string {
  return `# Metrics

Prometheus text format. All series carry the labels \`model_name\` and \`engine\`. Families with \`vllm:\` have the names (as
scraped, counters end in \`_total\`), labels, units and buckets of vLLM, so that dashboards made for vLLM work unchanged.

| Family | Kind | Labels | Meaning |
|---|---|---|---|
${allFamilies().map(familyRow).join("\n")}

## Label values

${labelLines().join("\n")}

## Buckets

${allFamilies()
  .filter((family) => family.kind === "histogram")
  .map((family) => `- \`${family.name}\`, in seconds: ${family.buckets.join(", ")}`)
  .join("\n")}
`;
}

function familyRow(family: MetricFamily): string {
  const labels = family.labels.map((label) => label.name).join(", ");
  return `| \`${family.name}\` | ${family.kind} | ${labels === "" ? "-" : labels} | ${family.help} |`;
}

function labelLines(): string[] {
  const lines = new Map<string, string>();
  for (const family of allFamilies())
    for (const label of family.labels)
      lines.set(
        label.name,
        `- \`${label.name}\`: ${label.values.map((value) => `\`${value}\``).join(", ")}`,
      );
  return [...lines.values()];
}
