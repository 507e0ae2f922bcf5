// The command lines of the MCP Inspector 2.12: `mcp-inspector --cli`, one command a connection, and `mcpdo`, which
// keeps connections open in a daemon of its own.
//
//   node inspector.mjs URL TOKEN
//
// What they cannot do, and why:
// - `--cli`: answer. It declares that it can, has no way to, and waits until it is stopped; an operator may answer in
//   the console meanwhile. It has no command for tasks either: it follows a task until that has ended;
// - both: sampling and roots, which they do not declare;
// - `mcpdo` in 2026-07-28: name the task that a running call has become, so nothing can cancel it from outside;
// - `mcpdo`: two commands at once on one connection. Another connection of the same token does it.
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, expectTrue, run, until } from "./expect.mjs";

const home = mkdtempSync(join(tmpdir(), "inspector-"));
const environment = { ...process.env, HOME: home, MCP_INSPECTOR_SECRET_STORE: "memory" };
const root = dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json"));
const STAGING = ["service:=web", "version:=1.4.2", "environment:=staging"];

/** Runs a command; its exit code and what it printed as JSON: the result, or an error. */
function command(script, args) {
  return new Promise((done) => {
    const options = { env: environment, timeout: 60_000 };
    execFile(process.execPath, [join(root, script), ...args], options, (error, stdout, stderr) => {
      const said = stdout.trim() || stderr.trim().split("\n").findLast((line) => line.startsWith("{")) || "{}";
      done({ code: error ? (error.code ?? error.signal) : 0, said: JSON.parse(said) });
    });
  });
}

const LAUNCHER = "clients/launcher/build/index.js";
const MCPDO = "clients/mcpdo/build/mcp-bin.js";

async function cli(url, token, era) {
  const target = ["--server-url", url, "--transport", "http", "--header", `Authorization: Bearer ${token}`];
  const inspect = (...args) =>
    command(LAUNCHER, ["--cli", ...target, "--protocol-era", era, "--format", "json", "--method", ...args]);
  const call = (tool, ...args) => inspect("tools/call", "--tool-name", tool, ...args.flatMap((a) => ["--tool-arg", a]));

  const { said } = await inspect("tools/list");
  expectTrue(`${era}: countdown is listed`, said.result.tools.some((tool) => tool.name === "countdown"));
  const counted = await call("word_count", "text=a b a");
  expect(`${era}: word_count`, [counted.code, counted.said.result.structuredContent.words], [0, 3]);
  const waited = await call("countdown", "seconds=1", "steps=2");
  expect(`${era}: countdown`, [waited.code, waited.said.result?.structuredContent.steps], [0, 2]);
  const failed = await call("fail", "kind=tool_error");
  expect(`${era}: tool error`, [failed.code, failed.said.result?.isError], [5, true]);
  const refused = await call("fail", "kind=protocol_error");
  expect(`${era}: protocol error`, [refused.code, refused.said.error.message], [1, "This call was refused on purpose"]);
}

async function ownDaemon() {
  // It prints shell exports for a daemon that nobody else on this machine meets.
  const lines = await new Promise((done, failed) =>
    execFile(process.execPath, [join(root, MCPDO), "private"], { env: environment }, (error, stdout) =>
      error ? failed(error) : done(stdout),
    ),
  );
  for (const [, name, value] of lines.matchAll(/^export (\w+)='(.*)'$/gm)) environment[name] = value;
}

async function daemon(url, token, era) {
  const on = (connection, ...args) => command(MCPDO, ["--format", "json", "--connection", connection, ...args]);
  const connect = (connection) =>
    on(connection, "connect", url, "--transport", "http", "--header", `Authorization: Bearer ${token}`, "--era", era);
  const hub = `hub-${era}`;
  expect(`${era}: connect`, (await connect(hub)).said.protocolEra, era);

  const asked = async (...call) => {
    const { said } = await on(hub, "tools/call", ...call);
    expectTrue(`${era}: ${call[0]} asks: ${JSON.stringify(said)}`, said.elicitationPending);
    return said.elicitationPending.elicitationId;
  };
  const picked = await on(hub, "elicitation/respond", await asked("pick"), "color:=red");
  expect(`${era}: pick`, picked.said.content?.[0].text, "red");
  const declined = await on(hub, "elicitation/respond", await asked("pick"), "--decline");
  expect(`${era}: pick declined`, declined.said.content?.[0].text, "decline");
  const deployed = await on(hub, "elicitation/respond", await asked("deploy", ...STAGING, "--task"), "confirm:=true");
  expect(`${era}: deploy`, deployed.said.structuredContent?.deployed, true);
  const sampling = await on(hub, "tools/call", "summarize", "text:=Long.");
  expect(`${era}: sampling`, sampling.said.error?.message, "The client did not declare the capability this tool needs");
  if (era === "modern") return;

  const finished = deployed.said._meta["io.modelcontextprotocol/related-task"].taskId;
  const again = await on(hub, "tasks/result", finished);
  expect("result again", again.said.structuredContent?.deployed ?? again.said, true);
  const other = "other";
  await connect(other);
  const before = (await on(other, "tasks/list")).said.tasks.map((one) => one.taskId);
  expectTrue("the finished task is listed", before.includes(finished));
  const running = on(hub, "tools/call", "countdown", "seconds:=120", "steps:=120", "--task");
  let task;
  await until("a running task in the list", async () => {
    const { said } = await on(other, "tasks/list");
    task = said.tasks.find((one) => one.status === "working" && !before.includes(one.taskId));
    return task;
  });
  expect("tasks/get", (await on(other, "tasks/get", task.taskId)).said.task?.status, "working");
  expect("tasks/cancel", (await on(other, "tasks/cancel", task.taskId)).code, 0);
  expect("the call that was cancelled", (await running).code, 1);
  expect("cancel of a cancelled task", (await on(other, "tasks/cancel", task.taskId)).code, 1);
  expect("an unknown id", (await on(other, "tasks/get", "x".repeat(32))).code, 1);
}

process.on("exit", () => {
  if (environment.MCP_INSPECTOR_DAEMON_DIR) {
    spawnSync(process.execPath, [join(root, MCPDO), "daemon", "stop"], { env: environment, stdio: "ignore" });
  }
  rmSync(home, { recursive: true, force: true });
});

await run("MCP Inspector 2.12", async (url, token) => {
  await Promise.all([cli(url, token, "legacy"), cli(url, token, "modern")]);
  await ownDaemon();
  await daemon(url, token, "legacy");
  await daemon(url, token, "modern");
});
