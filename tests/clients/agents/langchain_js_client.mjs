// @langchain/mcp-adapters: the tools of a MultiServerMCPClient.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { script, shown, steps } from "./model.mjs";

await script("LangChain (JavaScript)", async (url, token, seconds) => {
  const headers = { Authorization: `Bearer ${token}` };
  const client = new MultiServerMCPClient({ mcpServers: { hub: { transport: "http", url, headers } } });
  const tools = Object.fromEntries((await client.getTools()).map((tool) => [tool.name, tool]));
  const call = async (tool, args) => shown(await tools[tool].invoke(args));
  await steps("langchain-js", Object.keys(tools), call, { seconds });
  await client.close();
});
