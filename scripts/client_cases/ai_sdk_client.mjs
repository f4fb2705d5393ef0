// The Vercel AI SDK: text, streams, tools with and without further steps, structured output.
//
// Run by scripts/clients, which sets UPSTREAM, RECALLD (empty: the upstream alone) and NODE_HOME, the folder with the packages.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.env.NODE_HOME}/here.js`);
const { generateText, streamText, Output, stepCountIs, isStepCount, tool } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { z } = require("zod");
const { UPSTREAM, RECALLD } = process.env;
const TAIL = " 🦊é漢";
const reply = (text) => `Answer to: ${text}${TAIL}`;
const Trip = z.object({ city: z.string(), days: z.number() });
const weather = tool({
  description: "The weather in a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `sunny in ${city}`,
});

/** A user of recalld whom no other case knows. */
class Person {
  id = `person-${randomUUID()}`;
  word = `zeb${randomUUID().slice(0, 8)}`;
  headers = { "X-User-ID": this.id };
  model = createOpenAICompatible({
    name: "recalld", baseURL: `${RECALLD || UPSTREAM}/v1`, apiKey: "sk", headers: this.headers, supportsStructuredOutputs: true,
  })("scripted");

  statement() {
    return `My cat is called ${this.word}.`;
  }

  async get(path) {
    const response = await fetch(`${RECALLD}${path}`, { headers: this.headers });
    return response.json();
  }

  async conversations() {
    const { sessions } = await this.get("/api/v1/sessions?limit=50");
    sessions.sort((a, b) => a.created_at.localeCompare(b.created_at));
    return Promise.all(sessions.map(async ({ id }) => (await this.get(`/api/v1/sessions/${id}/turns?limit=50`)).turns));
  }

  /** Exactly these questions, one list a conversation: complete, in order, each once. */
  async stored(...expected) {
    if (!RECALLD) return;
    let found;
    for (let n = 0; n < 100; n++) {
      found = await this.conversations();
      if (found.flat().every((turn) => turn.status !== "pending")) break;
      await sleep(20);
    }
    assert.deepEqual(found.map((turns) => turns.map((turn) => turn.query_text)), expected);
    assert.deepEqual(found.map((turns) => turns.map((turn) => turn.status)), expected.map((turns) => turns.map(() => "complete")));
    assert.ok(found.flat().every((turn) => turn.response_text));
  }

  /** A new conversation is given what this person said in an earlier one. */
  async recalls() {
    if (!RECALLD) return;
    const prompt = `What is my cat called, ${randomUUID()}?`;
    await generateText({ model: this.model, prompt, maxRetries: 0 });
    const requests = await (await fetch(`${UPSTREAM}/requests`)).json();
    const sent = requests.filter((request) => JSON.stringify(request.body?.messages?.at(-1) ?? "").includes(prompt));
    assert.ok(JSON.stringify(sent.at(-1)).includes(this.word), "recalled");
  }
}

const cases = {
  async "a conversation"() {
    const person = new Person();
    const questions = [person.statement(), "What do cats eat?", "How often?"];
    const messages = [];
    for (const content of questions) {
      messages.push({ role: "user", content });
      const { text, response } = await generateText({ model: person.model, messages, maxRetries: 0 });
      assert.equal(text, reply(content));
      messages.push(...response.messages);
    }
    await person.stored(questions);
    await person.recalls();
  },

  async "a stream"() {
    const person = new Person();
    const { textStream } = streamText({ model: person.model, prompt: person.statement(), maxRetries: 0 });
    let text = "";
    for await (const piece of textStream) text += piece;
    assert.equal(text, reply(person.statement()));
    await person.stored([person.statement()]);
  },

  async "a tool with further steps"() {
    const person = new Person();
    const questions = [`${person.statement()} How is the weather? [[tool]]`, "And tomorrow?"];
    const messages = [];
    for (const content of questions) {
      messages.push({ role: "user", content });
      const stopWhen = (isStepCount ?? stepCountIs)(4);
      const { response } = await generateText({ model: person.model, messages, tools: { weather }, stopWhen, maxRetries: 0 });
      messages.push(...response.messages);
    }
    await person.stored(questions);
  },

  async "a forced tool without further steps"() {
    const person = new Person();
    const prompt = `${person.statement()} How is the weather?`;
    const { toolCalls } = await generateText({ model: person.model, prompt, tools: { weather }, toolChoice: "required", maxRetries: 0 });
    assert.equal(toolCalls[0].toolName, "weather");
    await person.stored([prompt]);
    await person.recalls();
  },

  async "structured output"() {
    const person = new Person();
    const prompt = `${person.statement()} Plan a trip.`;
    const result = await generateText({ model: person.model, prompt, output: Output.object({ schema: Trip }), maxRetries: 0 });
    assert.deepEqual(result.output, { city: "Lisbon", days: 1 });
    await person.stored([prompt]);
    await person.recalls();
  },
};

let failed = 0;
for (const [name, check] of Object.entries(cases)) {
  try {
    await check();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${name}\n${error.stack}`);
  }
}
console.log(`${Object.keys(cases).length - failed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
