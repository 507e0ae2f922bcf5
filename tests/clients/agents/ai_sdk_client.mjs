// AI SDK (@ai-sdk/mcp): the tools of a client, which answers what it is asked.
import { createMCPClient, ElicitationRequestSchema } from "@ai-sdk/mcp";
import { script, shown, steps } from "./model.mjs";

await script("AI SDK", async (url, token, seconds) => {
  const headers = { Authorization: `Bearer ${token}` };
  const capabilities = { elicitation: {} };
  const client = await createMCPClient({ transport: { type: "http", url, headers }, capabilities });
  client.onElicitationRequest(ElicitationRequestSchema, () => ({
    action: "accept",
    content: { color: "red", confirm: true },
  }));
  const tools = await client.tools();
  const options = { toolCallId: "1", messages: [] };
  const call = async (tool, args) => shown((await tools[tool].execute(args, options)).content);
  await steps("ai-sdk", Object.keys(tools), call, { seconds, elicits: true });
  await client.close();
});
