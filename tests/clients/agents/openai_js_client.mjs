// OpenAI Agents SDK for JavaScript, with its default time-outs; results are checked against the listed outputSchema.
import { MCPServerStreamableHttp } from "@openai/agents";
import { script, shown, steps } from "./model.mjs";

await script("OpenAI Agents SDK (JavaScript)", async (url, token, seconds) => {
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  const server = new MCPServerStreamableHttp({ url, requestInit });
  await server.connect();
  const tools = await server.listTools();
  const call = async (tool, args) => shown(await server.callTool(tool, args));
  await steps("openai-js", tools.map((tool) => tool.name), call, { seconds });
  await server.close();
});
