// A process that serves one answer with the whole application, stops it, and must then end by itself.
import { Application } from "../../../dist/serving/application.js";
import { applicationOptions } from "./application-options.mjs";

const application = await Application.start(applicationOptions);
const response = await fetch(`${application.server.url}/v1/completions`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: "tiny", prompt: "x".repeat(100), max_tokens: 20 }),
});
const answer = await response.json();
const inFlight = await application.stop();
console.log(`stopped ${inFlight} ${answer.usage.prompt_tokens}`);
