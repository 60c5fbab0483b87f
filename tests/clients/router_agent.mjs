// An agent of the npm SDK in both versions of ACP, behind the SDK's router, on stdio.
// Argument: the folder with node_modules. It asks for permission, and says in which version, and
// what was chosen.
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [tree] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tree}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const v1 = await load("@agentclientprotocol/sdk");
const v2 = await load("@agentclientprotocol/sdk/experimental/v2");

const options = [
  { optionId: "yes", name: "Yes", kind: "allow_once" },
  { optionId: "no", name: "No", kind: "reject_once" },
];
const said = (text) => ({ type: "text", text });

const agentOfV1 = v1
  .agent({ name: "router-v1" })
  .onRequest(v1.methods.agent.initialize, async () => ({
    protocolVersion: v1.PROTOCOL_VERSION,
    agentCapabilities: {},
  }))
  .onRequest(v1.methods.agent.session.new, async () => ({ sessionId: "one" }))
  .onRequest(v1.methods.agent.session.prompt, async ({ params: { sessionId }, client }) => {
    const toolCall = { toolCallId: "call", title: "Run it", kind: "execute", status: "pending" };
    const tell = (update) =>
      client.notify(v1.methods.client.session.update, { sessionId, update });
    await tell({ sessionUpdate: "tool_call", ...toolCall });
    const asked = await client.request(v1.methods.client.session.requestPermission, {
      sessionId,
      toolCall,
      options,
    });
    await tell({ sessionUpdate: "tool_call_update", toolCallId: "call", status: "completed" });
    const text = `1 ${asked.outcome.optionId ?? asked.outcome.outcome}`;
    await tell({ sessionUpdate: "agent_message_chunk", content: said(text) });
    return { stopReason: "end_turn" };
  });

async function turn(client, sessionId) {
  const tell = (update) => client.notify(v2.methods.client.session.update, { sessionId, update });
  const toolCall = { toolCallId: "call", title: "Run it", kind: "execute", status: "pending" };
  await tell({ sessionUpdate: "state_update", state: "running" });
  await tell({ sessionUpdate: "tool_call_update", ...toolCall });
  const asked = await client.request(v2.methods.client.session.requestPermission, {
    sessionId,
    title: "May it run?",
    subject: { type: "tool_call", toolCall },
    options,
  });
  await tell({ sessionUpdate: "tool_call_update", toolCallId: "call", status: "completed" });
  const content = said(`2 ${asked.outcome.optionId ?? asked.outcome.outcome}`);
  await tell({ sessionUpdate: "agent_message_chunk", messageId: "m2", content });
  await tell({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

const agentOfV2 = v2
  .agent({ name: "router-v2" })
  .onRequest(v2.methods.agent.initialize, async () => ({
    protocolVersion: v2.PROTOCOL_VERSION,
    info: { name: "router", version: "1" },
    capabilities: { session: { prompt: {} } },
  }))
  .onRequest(v2.methods.agent.session.new, async () => ({ sessionId: "two" }))
  .onRequest(v2.methods.agent.session.prompt, async ({ params, client }) => {
    const { sessionId, prompt } = params;
    const message = { sessionUpdate: "user_message", messageId: "m1", content: prompt };
    await client.notify(v2.methods.client.session.update, { sessionId, update: message });
    void turn(client, sessionId);
    return { messageId: "m1" };
  });

const stream = v1.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
await v2.agentProtocolRouter().withV1(agentOfV1).withV2(agentOfV2).connect(stream).closed;
