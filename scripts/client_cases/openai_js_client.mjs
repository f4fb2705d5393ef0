// The official JavaScript client against recalld: what an application does, and what is remembered of it.
//
// Run by scripts/clients, which says where things are:
//
//   UPSTREAM    the scripted upstream, without /v1
//   RECALLD     recalld, without /v1; empty to try the client and this file against the upstream alone
//   NODE_HOME   the folder in which `openai` is installed
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.env.NODE_HOME}/here.js`);
const OpenAI = require("openai").OpenAI;
const { UPSTREAM, RECALLD } = process.env;
const BASE_URL = `${RECALLD || UPSTREAM}/v1`;
const KEY = "sk-of-the-client";
const TAIL = " 🦊é漢";
const PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const client = new OpenAI({ baseURL: BASE_URL, apiKey: KEY, maxRetries: 0, timeout: 30_000 });

// --- Looking at what happened -----------------------------------------------------------------------

async function get(url, headers = {}) {
  const response = await fetch(url, { headers });
  return { status: response.status, page: await response.json() };
}

/** The chat requests that reached the model with this in their last message. */
async function upstreamRequests(question) {
  const { page } = await get(`${UPSTREAM}/requests`);
  const chats = page.filter((request) => request.body && request.path === "/v1/chat/completions");
  return chats.filter((request) => JSON.stringify(request.body.messages.at(-1)).includes(question));
}

/** The turns of a session, once none of them is under way. */
async function settled(session) {
  let turns = [];
  for (let n = 0; n < 100; n++) {
    const { status, page } = await get(`${RECALLD}/api/v1/sessions/${session}/turns?limit=50`);
    turns = status === 200 ? page.turns : [];
    if (turns.length > 0 && turns.every((turn) => turn.status !== "pending")) break;
    await sleep(50);
  }
  return turns;
}

/** Exactly these questions and answers, complete, in order, each once. */
async function remembered(session, ...expected) {
  if (!RECALLD) return;
  const turns = await settled(session);
  assert.deepEqual(turns.map((turn) => [turn.query_text, turn.response_text]), expected);
  assert.deepEqual(turns.map((turn) => turn.turn_number), expected.map((_, n) => n + 1));
  assert.ok(turns.every((turn) => turn.status === "complete"));
}

const reply = (text) => `Answer to: ${text}${TAIL}`;
const asked = (text, more = {}) => ({ model: "scripted", messages: [{ role: "user", content: text }], ...more });
const inSession = (session) => ({ headers: { "X-Session-ID": session } });

async function collected(stream) {
  let said = "";
  for await (const chunk of stream) said += chunk.choices[0]?.delta?.content ?? "";
  return said;
}

// --- What an application does -----------------------------------------------------------------------

const cases = {
  async "models are listed"() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.deepEqual(ids, ["scripted", "scripted-mini"]);
  },

  async "a plain question"() {
    const session = randomUUID();
    const { data, response } = await client.chat.completions.create(asked("A plain question"), inSession(session)).withResponse();
    assert.equal(data.choices[0].message.content, reply("A plain question"));
    assert.deepEqual(data.x_unknown, { kept: true }, "unknown fields of the answer come through");
    if (RECALLD) {
      assert.equal(response.headers.get("x-session-id"), session);
      assert.equal(response.headers.get("x-recalld-status"), "ok");
    }
    await remembered(session, ["A plain question", reply("A plain question")]);
  },

  async "a stream"() {
    const session = randomUUID();
    const stream = await client.chat.completions.create(asked("A stream", { stream: true }), inSession(session));
    assert.equal(await collected(stream), reply("A stream"));
    await remembered(session, ["A stream", reply("A stream")]);
  },

  async "the stream helper"() {
    const session = randomUUID();
    const stream = client.chat.completions.stream(asked("Helped along", { stream_options: { include_usage: true } }), inSession(session));
    assert.equal(await stream.finalContent(), reply("Helped along"));
    assert.ok((await stream.totalUsage()).total_tokens > 0);
    await remembered(session, ["Helped along", reply("Helped along")]);
  },

  async "a conversation is remembered once"() {
    const [session, messages, pairs] = [randomUUID(), [], []];
    for (let n = 0; n < 4; n++) {
      messages.push({ role: "user", content: `Question ${n}` });
      const answer = await client.chat.completions.create({ model: "scripted", messages }, inSession(session));
      messages.push(answer.choices[0].message);
      pairs.push([`Question ${n}`, reply(`Question ${n}`)]);
    }
    await remembered(session, ...pairs);
  },

  async "a conversation is found by its history"() {
    const start = `Begin ${randomUUID()}`;
    const [messages, sessions] = [[], new Set()];
    for (const content of [start, "And then?", "And after that?"]) {
      messages.push({ role: "user", content });
      const { data, response } = await client.chat.completions.create({ model: "scripted", messages }).withResponse();
      messages.push(data.choices[0].message);
      sessions.add(response.headers.get("x-session-id"));
    }
    if (!RECALLD) return;
    assert.equal(sessions.size, 1, [...sessions].join());
    await remembered([...sessions][0], ...[start, "And then?", "And after that?"].map((q) => [q, reply(q)]));
  },

  /** The helper calls the function and asks again by itself: several requests, one turn. */
  async "tools"() {
    const [session, question] = [randomUUID(), `The weather? ${randomUUID()} [[tool]]`];
    const called = [];
    const run = client.chat.completions.runTools(
      asked(question, {
        tools: [{
          type: "function",
          function: {
            name: "get_weather",
            description: "The weather in a city.",
            parameters: { type: "object", properties: { city: { type: "string" } } },
            parse: JSON.parse,
            function: ({ city }) => { called.push(city); return "sunny"; },
          },
        }],
      }),
      inSession(session),
    );
    assert.equal(await run.finalContent(), `The tool said: sunny${TAIL}`);
    assert.deepEqual(called, ["Lisbon"]);
    await remembered(session, [question, `The tool said: sunny${TAIL}`]);
    if (!RECALLD) return;
    const { page } = await get(`${RECALLD}/api/v1/sessions/${session}/messages?limit=50`);
    assert.deepEqual(page.messages.map((message) => message.role), ["user", "assistant", "tool", "assistant"]);
  },

  async "pictures"() {
    const [session, question] = [randomUUID(), `What is this? ${randomUUID()}`];
    const picture = { type: "image_url", image_url: { url: PIXEL } };
    const content = [{ type: "text", text: question }, picture];
    const answer = await client.chat.completions.create({ model: "scripted", messages: [{ role: "user", content }] }, inSession(session));
    const said = `I see 1 picture(s). Answer to: ${question}${TAIL}`;
    assert.equal(answer.choices[0].message.content, said);
    const [sent] = await upstreamRequests(question);
    assert.deepEqual(sent.body.messages.at(-1).content.at(-1), picture, "the picture goes through as it is");
    await remembered(session, [question, said]);
  },

  async "errors have their types"() {
    const kinds = {
      400: OpenAI.BadRequestError, 401: OpenAI.AuthenticationError, 404: OpenAI.NotFoundError,
      429: OpenAI.RateLimitError, 500: OpenAI.InternalServerError,
    };
    for (const [status, kind] of Object.entries(kinds)) {
      for (const stream of [false, true]) {
        const wrong = client.chat.completions.create(asked(`Go wrong [[error ${status}]]`, { stream }));
        await assert.rejects(wrong, (error) => error instanceof kind && Boolean(error.error?.message), `${status}`);
      }
    }
  },

  async "our own errors have OpenAI's shape"() {
    if (!RECALLD) return;
    const wrong = client.chat.completions.create(asked("Hi"), inSession("no-uuid"));
    await assert.rejects(wrong, (error) => error instanceof OpenAI.BadRequestError && error.code === "invalid_session_id");
  },

  async "a retry is stored once"() {
    const patient = new OpenAI({ baseURL: BASE_URL, apiKey: KEY, maxRetries: 2 });
    const [session, question] = [randomUUID(), `Try again [[fail-once ${randomUUID()}]]`];
    const answer = await patient.chat.completions.create(asked(question), inSession(session));
    assert.equal(answer.choices[0].message.content, reply("Try again"));
    const counts = (await upstreamRequests(question)).map((request) => request.headers["x-stainless-retry-count"]);
    assert.deepEqual(counts, ["0", "1"]);
    await remembered(session, [question, reply("Try again")]);
  },

  async "a client that leaves costs only itself"() {
    const session = randomUUID();
    const stream = await client.chat.completions.create(asked("Leave early [[slow]]", { stream: true }), inSession(session));
    for await (const _ of stream) break;
    stream.controller.abort();
    if (!RECALLD) return;
    const turns = await settled(session);
    assert.equal(turns.length, 1);
    assert.ok(["partial", "failed"].includes(turns[0].status), turns[0].status);
  },

  async "many at once"() {
    const [session, many] = [randomUUID(), 16];
    const ask = async (_, n) => {
      const stream = n % 2 === 1;
      const answer = await client.chat.completions.create(asked(`Number ${n}`, { stream }), inSession(session));
      return stream ? collected(answer) : answer.choices[0].message.content;
    };
    const answers = await Promise.all(Array.from({ length: many }, ask));
    assert.deepEqual(answers, answers.map((_, n) => reply(`Number ${n}`)));
    if (!RECALLD) return;
    const turns = await settled(session);
    assert.deepEqual(turns.map((turn) => turn.turn_number), answers.map((_, n) => n + 1));
    assert.deepEqual(new Set(turns.map((turn) => turn.query_text)), new Set(answers.map((_, n) => `Number ${n}`)));
  },

  async "unknown fields go through and ours do not"() {
    const [question, odd] = [`Odd ${randomUUID()}`, { deep: [1, 2.5, "é", null, true] }];
    await client.chat.completions.create(asked(question, { frobnicate: odd, session_id: "odd", user: "ann" }));
    const [sent] = await upstreamRequests(question);
    assert.deepEqual(sent.body.frobnicate, odd);
    assert.equal(sent.headers.authorization, `Bearer ${KEY}`);
    if (RECALLD) assert.ok(!("session_id" in sent.body));
  },
};

const { VERSION } = require("openai/version");
console.log(`JavaScript client ${VERSION} at ${BASE_URL}`);
let failed = 0;
for (const [name, run] of Object.entries(cases)) {
  if (process.argv.length > 2 && !process.argv.slice(2).includes(name)) continue;
  try {
    await run();
    console.log(`  ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`  FAILED  ${name}\n${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
