// The TypeScript SDK 1.32 with its experimental tasks client, in 2025-11-25, the latest revision it speaks.
//
//   node typescript_1.mjs URL TOKEN OTHER_TOKEN
//
// What it cannot do, and why:
// - show progress of a task by polling: it comes on the stream of a waiting tasks/result, which must be asked for too;
// - say why a task failed: its stream ends with "Task ... failed" and never fetches the result (getTaskResult does);
// - wait for more than 60 s without traffic: its request time-out, which progress prolongs only if one asks for that.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  TaskStatusNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { expect, expectTrue, refused, run, sleep, until } from "./expect.mjs";

const RELATED = "io.modelcontextprotocol/related-task";
const STAGING = { service: "web", version: "1.4.2", environment: "staging" };
const THINKING_MS = 1_500; // a person who takes longer than a poll: nothing may be asked twice meanwhile

class Person {
  says = { action: "decline" };
  thinksMs = 0;
  asked = [];
  logged = [];
  told = [];

  accepts(content) {
    this.says = { action: "accept", content };
    this.asked = [];
  }

  declines() {
    this.says = { action: "decline" };
    this.asked = [];
  }
}

async function connected(url, token, person) {
  const client = new Client(
    { name: "typescript-1", version: "1" },
    { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    person.asked.push(request.params);
    await sleep(person.thinksMs);
    return person.says;
  });
  client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    role: "assistant",
    content: { type: "text", text: "In short." },
    model: "m",
  }));
  client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///srv/data" }] }));
  client.setNotificationHandler(LoggingMessageNotificationSchema, (note) => person.logged.push(note.params.data));
  client.setNotificationHandler(TaskStatusNotificationSchema, (note) => person.told.push(note.params));
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  return client;
}

async function calls(client, person) {
  const { tools } = await client.listTools();
  const support = Object.fromEntries(tools.map((tool) => [tool.name, tool.execution?.taskSupport]));
  expect("taskSupport", [support.echo, support.word_count, support.countdown], ["forbidden", "optional", "optional"]);
  expect("echo", (await client.callTool({ name: "echo", arguments: { text: "hé" } })).content[0].text, "hé");
  const counted = await client.callTool({ name: "word_count", arguments: { text: "a b a" } });
  expect("word_count", counted.structuredContent.words, 3);
  const failed = await client.callTool({ name: "fail", arguments: { kind: "tool_error" } });
  expect("tool error", [failed.isError, failed.content[0].text], [true, "This tool failed on purpose"]);
  await refused("protocol error", () => client.callTool({ name: "fail", arguments: { kind: "protocol_error" } }), -32602);
  await refused("an unknown tool", () => client.callTool({ name: "nonsense" }), -32602);
  const waited = await client.callTool({ name: "countdown", arguments: { seconds: 1, steps: 2 } });
  expect("countdown, waited for", waited.structuredContent.steps, 2);
  expect("a tool that runs only as a task is not listed without tasks", support.task_only, undefined);
  await refused("it", () => client.callTool({ name: "task_only" }), -32601);

  const steps = [];
  await client.setLoggingLevel("info");
  await client.callTool({ name: "tell" }, undefined, { onprogress: (note) => steps.push(note.progress) });
  expect("progress", steps, [1, 2, 3]);
  expect("log lines", person.logged, ["told 1", "told 2", "told 3"]);

  person.accepts({ color: "red" });
  expect("pick", (await client.callTool({ name: "pick" })).content[0].text, "red");
  expect("what was asked", person.asked.map((asked) => asked.message), ["Which colour?"]);
  person.declines();
  expect("pick declined", (await client.callTool({ name: "pick" })).content[0].text, "decline");
  person.accepts();
  const visited = await client.callTool({ name: "visit" });
  expectTrue("visit", visited.content[0].text.startsWith("The person agreed to open"));
  expect("the page", [person.asked.length, person.asked[0].url], [1, "https://modelcontextprotocol.io/"]);
  const summary = await client.callTool({ name: "summarize", arguments: { text: "Long." } });
  expect("summarize", summary.content[0].text, "In short.");
  expect("roots", (await client.callTool({ name: "roots" })).content[0].text, "file:///srv/data");
}

/** All that the stream of a task yields; `during` is called with each message. */
async function streamed(client, name, args, during = () => {}, options = {}) {
  const found = [];
  const stream = client.experimental.tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options);
  for await (const message of stream) {
    found.push(message);
    await during(message);
  }
  return { id: found[0].task?.taskId, last: found.at(-1), statuses: found.flatMap((one) => one.task?.status ?? []) };
}

async function tasks(client, person) {
  const progress = [];
  const options = { task: { ttl: 7_200_000 }, onprogress: (note) => progress.push(note.progress) };
  let waiting;
  const wait = (message) => {
    if (message.type !== "taskCreated") return;
    expect("ttl", message.task.ttl, 7_200_000);
    waiting = client.experimental.tasks.getTaskResult(message.task.taskId, CallToolResultSchema);
  };
  const counting = await streamed(client, "countdown", { seconds: 1, steps: 4 }, wait, options);
  expect("countdown", counting.last.result.structuredContent.steps, 4);
  expect("related task", counting.last.result._meta[RELATED], { taskId: counting.id });
  expect("first and last status", [counting.statuses[0], counting.statuses.at(-1)], ["working", "completed"]);
  const again = () => client.experimental.tasks.getTaskResult(counting.id, CallToolResultSchema);
  expect("result again", await again(), await again());
  await until("a status notification", () =>
    person.told.some((task) => task.taskId === counting.id && task.status === "completed"),
  );
  expect("the result that was waited for", await waiting, counting.last.result);
  expectTrue(`progress ${progress} ends at 4`, progress.at(-1) === 4);

  person.accepts({ confirm: true });
  person.thinksMs = THINKING_MS;
  const deploying = await streamed(client, "deploy", STAGING);
  expect("deploy", deploying.last.result?.structuredContent.deployed, true);
  expect("how often it asked", person.asked.length, 1);
  expect("the question names its task", person.asked[0]._meta[RELATED], { taskId: deploying.id });
  person.declines();
  person.thinksMs = 0;
  const declining = await streamed(client, "deploy", STAGING);
  expect("deploy declined", declining.last.result?.structuredContent.deployed, false);
  const summarizing = await streamed(client, "summarize", { text: "Long." });
  expect("summarize", summarizing.last.result?.content[0].text, "In short.");

  const failing = await streamed(client, "fail", { kind: "tool_error" });
  expect("a failed task", [failing.last.type, failing.statuses.at(-1)], ["error", "failed"]);
  const failed = await client.experimental.tasks.getTaskResult(failing.id, CallToolResultSchema);
  expect("result of a failed task", failed.isError, true);
  const refusing = await streamed(client, "fail", { kind: "protocol_error" });
  const result = () => client.experimental.tasks.getTaskResult(refusing.id, CallToolResultSchema);
  const why = await refused("result of a protocol error", result, -32602);
  expectTrue(`"${why.message}" is the tool's`, why.message.includes("refused on purpose"));

  const cancelling = await streamed(client, "countdown", { seconds: 120, steps: 120 }, async (message) => {
    if (message.type !== "taskCreated") return;
    const answer = await client.experimental.tasks.cancelTask(message.task.taskId);
    expect("answer to cancel", answer.status, "cancelled");
  });
  expectTrue("the stream of a cancelled task says so", cancelling.last.error.message.includes("cancelled"));
  const again2 = () => client.experimental.tasks.cancelTask(cancelling.id);
  await refused("cancel of a cancelled task", again2, -32602);
  await refused("an unknown id", () => client.experimental.tasks.getTask("x".repeat(32)), -32602);
  return [counting, deploying, declining, summarizing, failing, refusing, cancelling].map((task) => task.id);
}

async function listed(client) {
  const found = new Set();
  let cursor;
  do {
    const page = await client.experimental.tasks.listTasks(cursor);
    for (const task of page.tasks) found.add(task.taskId);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

await run("TypeScript SDK 1.32", async (url, mine, other) => {
  const person = new Person();
  const client = await connected(url, mine, person);
  await calls(client, person);
  const ids = await tasks(client, person);
  const found = await listed(client);
  expect("tasks that are not listed", ids.filter((id) => !found.has(id)), []);
  await client.close();

  const later = await connected(url, mine, person);
  const result = await later.experimental.tasks.getTaskResult(ids[0], CallToolResultSchema);
  expect("the result in another session", result.structuredContent.steps, 4);
  const stranger = await connected(url, other, new Person());
  await refused("another client's task", () => stranger.experimental.tasks.getTask(ids[0]), -32602);
});
