// The TypeScript client 2.4, with `@modelcontextprotocol/ext-tasks` for tasks, in 2026-07-28 and in 2025-11-25.
//
//   node typescript_2.mjs URL TOKEN OTHER_TOKEN
//
// What they cannot do, and why:
// - the client alone: tasks. It waits for results, and drops what `tools/call` answers for a task;
// - ext-tasks in 2026-07-28: send its requests through the client, whose codecs refuse task handles. It asks its host
//   for a way to dispatch them (`dispatcher` below);
// - ext-tasks in 2025-11-25: ask for a result before the task has ended. So questions reach it on the session's own
//   stream only, which the client keeps open, and progress of a task never does;
// - ext-tasks in 2025-11-25: give the result of a failed task. It tells the status message.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";
import { expect, expectTrue, refused, run, sleep } from "./expect.mjs";

const MODERN = "2026-07-28";
const OLDER = "2025-11-25";
const STAGING = { service: "web", version: "1.4.2", environment: "staging" };
const LONG = { seconds: 120, steps: 120 };
const THINKING_MS = 1_500; // a person who takes longer than a poll: nothing may be asked twice meanwhile
const INFO = { name: "typescript-2", version: "1" };
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const SUMMARY = { role: "assistant", content: { type: "text", text: "In short." }, model: "m" };
const ROOTS = { roots: [{ uri: "file:///srv/data" }] };

class Person {
  says = { action: "decline" };
  thinksMs = 0;
  asked = [];
  logged = [];

  async elicit(params) {
    this.asked.push(params);
    await sleep(this.thinksMs);
    return this.says;
  }

  accepts(content, thinksMs = 0) {
    this.says = { action: "accept", ...(content && { content }) };
    this.thinksMs = thinksMs;
    this.asked = [];
  }

  declines() {
    this.says = { action: "decline" };
    this.thinksMs = 0;
    this.asked = [];
  }
}

/** By itself the client speaks 2025-11-25; `auto` asks the server first. */
async function connected(url, token, person, mode) {
  const client = new Client(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
  client.setRequestHandler("elicitation/create", (request) => person.elicit(request.params));
  client.setRequestHandler("sampling/createMessage", () => SUMMARY);
  client.setRequestHandler("roots/list", () => ROOTS);
  client.setNotificationHandler("notifications/message", (note) => void person.logged.push(note.params.data));
  const headers = { Authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  expect("version", client.getNegotiatedProtocolVersion(), mode === "auto" ? MODERN : OLDER);
  return client;
}

/** The same in both revisions, but for one code and how log lines are asked for. */
async function calls(client, person, runsOnlyAsATask) {
  const names = new Set((await client.listTools()).tools.map((tool) => tool.name));
  expectTrue("the demo's tools are listed", ["echo", "word_count", "countdown", "tell"].every((name) => names.has(name)));
  expect("echo", (await client.callTool({ name: "echo", arguments: { text: "hé" } })).content[0].text, "hé");
  const counted = await client.callTool({ name: "word_count", arguments: { text: "a b a" } });
  expect("word_count", counted.structuredContent.words, 3);
  const failed = await client.callTool({ name: "fail", arguments: { kind: "tool_error" } });
  expect("tool error", [failed.isError, failed.content[0].text], [true, "This tool failed on purpose"]);
  await refused("protocol error", () => client.callTool({ name: "fail", arguments: { kind: "protocol_error" } }), -32602);
  const waited = await client.callTool({ name: "countdown", arguments: { seconds: 1, steps: 2 } });
  expect("countdown, waited for", waited.structuredContent.steps, 2);
  expect("a tool that runs only as a task is not listed without tasks", names.has("task_only"), false);
  await refused("it", () => client.callTool({ name: "task_only" }), runsOnlyAsATask);

  const steps = [];
  person.logged = [];
  const level = { "io.modelcontextprotocol/logLevel": "info" };
  await client.callTool({ name: "tell", _meta: level }, { onprogress: (note) => steps.push(note.message) });
  expect("progress", steps, ["step 1", "step 2", "step 3"]);
  expect("log lines", person.logged, ["told 1", "told 2", "told 3"]);

  person.accepts({ color: "red" }, THINKING_MS);
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

/** What ext-tasks wants of its host in 2026-07-28: send one request, give back its result or error. */
function dispatcher(url, token) {
  let id = 0;
  return async (request, { signal } = {}) => {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        Authorization: `Bearer ${token}`,
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": request.method,
        "Mcp-Name": request.params.taskId ?? request.params.name,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: ++id, ...request }),
      ...(signal && { signal }),
    });
    const body = await response.text();
    const streamed = response.headers.get("content-type").startsWith("text/event-stream");
    const last = streamed ? body.split("\n").findLast((line) => line.startsWith("data: {")).slice(6) : body;
    const message = JSON.parse(last);
    return message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
  };
}

function taskSession(client, url, token, person) {
  const modern = client.getProtocolEra() === "modern" && {
    rawDispatch: dispatcher(url, token),
    v2RequestFraming: { protocolVersion: MODERN, clientInfo: INFO, clientCapabilities: CAPABILITIES },
  };
  return createTaskSessionFromClient(client, {
    endpointId: "taskhub",
    onInputRequest: (request) => (request.kind === "sampling" ? SUMMARY : person.elicit(request.params)),
    ...modern,
  });
}

/** The same in both revisions. */
async function tasks(session, person) {
  const started = (name, params, preference = "prefer") =>
    session.callTool(name, params, { task: { preference, retentionMs: 600_000 } });
  const settled = async (execution) => (await execution.settle()).outcome;
  const ids = [];

  const counting = await started("countdown", { seconds: 1, steps: 2 }, "require");
  expect("countdown is a task", counting.kind, "task");
  const reference = counting.serializeReference();
  ids.push(counting.handle.taskId);
  const counted = resultFromTaskOutcome(await settled(counting));
  expect("countdown", counted.structuredContent.steps, 2);
  const again = await session.task(ids[0]).result();
  expect("result again", resultFromTaskOutcome(again).structuredContent, counted.structuredContent);

  person.accepts({ confirm: true }, THINKING_MS);
  const deploying = await started("deploy", STAGING, "require");
  ids.push(deploying.handle.taskId);
  expect("deploy", resultFromTaskOutcome(await settled(deploying)).structuredContent.deployed, true);
  expect("how often it asked", person.asked.length, 1);
  person.declines();
  const declining = await started("deploy", STAGING, "require");
  ids.push(declining.handle.taskId);
  expect("deploy declined", resultFromTaskOutcome(await settled(declining)).structuredContent.deployed, false);

  const cancelling = await started("countdown", LONG, "require");
  ids.push(cancelling.handle.taskId);
  await cancelling.cancel();
  expect("a cancelled task", (await settled(cancelling)).status, "cancelled");
  const snapshot = await session.task(cancelling.handle.taskId).snapshot();
  expect("its status", snapshot.status, "cancelled");
  await refused("an unknown id", () => session.task("x".repeat(32)).snapshot(), -32602);
  return { ids, reference, settled, started };
}

async function modern(url, token, person) {
  const client = await connected(url, token, person, "auto");
  await calls(client, person, -32021);
  const session = taskSession(client, url, token, person);
  const { reference } = await tasks(session, person);
  await refused("tasks/list, which this revision does not have", () => session.listTasks());
  const summarizing = await session.callTool("summarize", { text: "Long." });
  const summary = resultFromTaskOutcome((await summarizing.settle()).outcome);
  expect("summarize", summary.content[0].text, "In short.");
  const failing = await session.callTool("fail", { kind: "tool_error" });
  expect("tool error", resultFromTaskOutcome((await failing.settle()).outcome).isError, true);
  await session.close();
  await client.close();

  const later = await connected(url, token, person, "auto");
  const resumed = await taskSession(later, url, token, person).resumeTask(reference);
  const result = resultFromTaskOutcome((await resumed.settle()).outcome);
  expect("a task taken up by another client", result.structuredContent.steps, 2);
  await later.close();
}

async function older(url, token, person) {
  const client = await connected(url, token, person, "legacy");
  await client.setLoggingLevel("info");
  await calls(client, person, -32601);
  const session = taskSession(client, url, token, person);
  const { ids, reference, settled, started } = await tasks(session, person);
  const summarizing = await started("summarize", { text: "Long." });
  expect("summarize", resultFromTaskOutcome(await settled(summarizing)).content[0].text, "In short.");
  // Here a tool error is a failed task; the package then tells its message and not its result.
  const failing = await started("fail", { kind: "tool_error" });
  const failed = await settled(failing);
  expect("a failed task", [failed.status, failed.task.statusMessage], ["failed", "This tool failed on purpose"]);
  ids.push(summarizing.handle.taskId, failing.handle.taskId);
  await refused("cancel of an ended task", () => session.task(ids[0]).cancel(), -32602);

  const listed = new Set();
  let cursor;
  do {
    const page = await session.listTasks(cursor);
    for (const task of page.tasks) listed.add(task.taskId);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  expect("tasks that are not listed", ids.filter((id) => !listed.has(id)), []);
  await session.close();
  await client.close();

  const later = await connected(url, token, person, "legacy");
  const resumed = await taskSession(later, url, token, person).resumeTask(reference);
  const result = resultFromTaskOutcome((await resumed.settle()).outcome);
  expect("a task taken up by another client", result.structuredContent.steps, 2);
  await later.close();
  return ids[0];
}

await run("TypeScript client 2.4", async (url, mine, other) => {
  const person = new Person();
  await modern(url, mine, person);
  const id = await older(url, mine, person);
  const stranger = await connected(url, other, person, "legacy");
  await refused("another client's task", () => taskSession(stranger, url, other, person).task(id).snapshot(), -32602);
});
