// A session of ACP v2 through the npm SDK's own client; prints what it saw as JSON.
// Arguments: the folder with node_modules, the agent's command, the working directory, the kind of
// option to choose, then the prompts. A prompt "stop:..." has its first command cancelled.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [tree, command, cwd, choose, ...prompts] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${tree}/package.json`));
const acp = await import(pathToFileURL(require.resolve("@agentclientprotocol/sdk/experimental/v2")));

const agent = spawn(command, [], { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { asked: [], turns: [], replayed: [] };
const introduction = {
  protocolVersion: acp.PROTOCOL_VERSION,
  info: { name: "sdk-client-v2", version: "1" },
  capabilities: {},
};

const app = acp
  .client({ name: "sdk-client-v2" })
  .onRequest(acp.methods.client.session.requestPermission, async ({ params }) => {
    seen.asked.push(params);
    const option = params.options.find((each) => each.kind === choose);
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.replayed.push(params.update);
  });

async function turn(session, text) {
  const { messageId } = await session.prompt(text);
  const updates = [];
  let stops = text.startsWith("stop:");
  for (;;) {
    const message = await session.nextUpdate();
    updates.push(message.update);
    if (message.kind === "stop") {
      return { messageId, updates, stopReason: message.stopReason, background: session.background };
    }
    const { terminalId } = message.update;
    if (stops && terminalId !== undefined && session.canCancelTerminal(terminalId)) {
      stops = false;
      await session.cancelTerminal(terminalId);
    }
  }
}

await app.connectWith(stream, async (context) => {
  const { session: methods, initialize } = acp.methods.agent;
  seen.initialized = await context.request(initialize, introduction);
  seen.repeated = await context.request(initialize, introduction);
  await context.buildSession(cwd).withSession(async (session) => {
    seen.opened = session.newSessionResponse;
    for (const text of prompts) seen.turns.push(await turn(session, text));
    const mode = session.configOptions.find((each) => each.configId === "mode");
    const set = { configId: "mode", type: "id", value: mode.options[0].value };
    seen.set = await session.setConfigOption(set);
  });
  const { sessionId } = seen.opened;
  seen.listed = await context.request(methods.list, { cwd });
  await context.request(methods.close, { sessionId });
  seen.replayed.length = 0;
  seen.resumed = await context.request(methods.resume, {
    sessionId,
    cwd,
    replayFrom: { type: "start" },
  });
  seen.replayedBefore = seen.replayed.length;
  await context.request(methods.delete, { sessionId });
});
agent.stdin.end();
await new Promise((resolve) => agent.once("exit", resolve));
console.log(JSON.stringify(seen));
