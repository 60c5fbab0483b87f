// One prompt through the npm SDK's own client over the network; prints what it saw as JSON.
// Arguments: the folder with node_modules, the agent's URL, its token, the working directory,
// the kind of option to choose, what is asked, a session to load before that or "".
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [tree, url, token, cwd, choose, text, earlier] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tree}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const acp = await load("@agentclientprotocol/sdk");
const { createHttpStream } = await load("@agentclientprotocol/sdk/experimental/http-client");
const { createWebSocketStream } = await load("@agentclientprotocol/sdk/experimental/ws-client");
const ws = await load("ws");
const WebSocket = ws.WebSocket ?? ws.default;

const headers = { Authorization: `Bearer ${token}` };
const stream = url.startsWith("http")
  ? createHttpStream(url, { headers })
  : createWebSocketStream(url, { WebSocket, headers });
const seen = { updates: [], asked: [] };

const app = acp
  .client({ name: "sdk-client" })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
    seen.asked.push(params);
    if (choose === "leave") process.exit(9);
    const option = params.options.find((each) => each.kind === choose);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update);
  });

await app.connectWith(stream, async (context) => {
  const { session, ...agentMethods } = acp.methods.agent;
  seen.initialized = await context.request(agentMethods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  if (earlier) {
    seen.loaded = await context.request(session.load, { sessionId: earlier, cwd, mcpServers: [] });
    while (!seen.updates.some((each) => JSON.stringify(each).includes("has ended"))) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return;
  }
  const opened = await context.request(session.new, { cwd, mcpServers: [] });
  seen.opened = opened;
  console.log(opened.sessionId);
  const prompt = [{ type: "text", text }];
  seen.ended = await context.request(session.prompt, { sessionId: opened.sessionId, prompt });
});
console.log(JSON.stringify(seen));
process.exit(0);
