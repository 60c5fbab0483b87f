// One prompt through the npm SDK's own client; prints what it saw as JSON.
// Arguments: the folder with node_modules, the agent's command, the working directory,
// the kind of option to choose, what is asked.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [tree, command, cwd, choose, text] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tree}/package.json`));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk")));

const agent = spawn(command, [], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { updates: [], asked: [] };

const app = acp
  .client({ name: "sdk-client" })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
    seen.asked.push(params);
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
  const opened = await context.request(session.new, { cwd, mcpServers: [] });
  seen.opened = opened;
  const prompt = [{ type: "text", text }];
  seen.ended = await context.request(session.prompt, { sessionId: opened.sessionId, prompt });
  seen.listed = await context.request(session.list, { cwd });
});
agent.stdin.end();
await new Promise((resolve) => agent.once("exit", resolve));
console.log(JSON.stringify(seen));
