// An agent of the npm SDK that listens on a websocket; prints its URL.
// Argument: the folder with node_modules. It asks for permission, and says what was chosen.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tree] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tree}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const acp = await load("@agentclientprotocol/sdk");
const { AcpServer } = await load("@agentclientprotocol/sdk/experimental/server");
const node = await load("@agentclientprotocol/sdk/experimental/node");
const ws = await load("ws");
const WebSocketServer = ws.WebSocketServer ?? ws.default.WebSocketServer ?? ws.default.Server;

const { session, initialize } = acp.methods.agent;
const createAgent = () =>
  acp
    .agent({ name: "sdk-agent" })
    .onRequest(initialize, async () => ({
      protocolVersion: acp.PROTOCOL_VERSION,
      agentCapabilities: {},
    }))
    .onRequest(session.new, async () => ({ sessionId: "one" }))
    .onRequest(session.prompt, async ({ params, client }) => {
      const { sessionId } = params;
      const asked = await client.request(acp.methods.client.session.requestPermission, {
        sessionId,
        toolCall: { toolCallId: "call", title: "Run it", kind: "execute" },
        options: [{ optionId: "yes", name: "Yes", kind: "allow_once" }],
      });
      const text = asked.outcome.optionId ?? asked.outcome.outcome;
      await client.notify(acp.methods.client.session.update, {
        sessionId,
        update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
      });
      return { stopReason: "end_turn" };
    });

const server = new AcpServer({ createAgent });
const http = createServer(node.createNodeHttpHandler(server));
const upgrades = new WebSocketServer({ noServer: true });
http.on("upgrade", node.createNodeWebSocketUpgradeHandler(server, upgrades));
http.listen(0, "127.0.0.1", () => console.log(`ws://127.0.0.1:${http.address().port}/acp`));
