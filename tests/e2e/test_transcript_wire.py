"""The wire in the transcript of a real session: complete, paired, and without what was typed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from codex_acp.cli.transcript_command import page_data
from codex_acp.cli.transcript_lines import Selection, read
from codex_acp.runtime import AgentRuntime, AgentSpec, Form, Permission
from codex_acp.testing import (
    CodexHome,
    McpTool,
    ScriptedMcpServer,
    ScriptedModel,
    Step,
    Text,
    exec_command,
    form_elicitation,
    mcp_call,
)

TYPED = "a town that is typed"
SECRET = "zsecret-of-the-server"


def allow(permission: Permission) -> str | None:
    option = permission.option("allow_once")
    return None if option is None else option.option_id


async def fill_in(_form: Form) -> dict[str, str]:
    return {"city": TYPED}


async def test_the_wire_of_a_session_with_an_approval_and_a_form(tmp_path: Path) -> None:
    form = form_elicitation("Where?", {"city": {"type": "string"}}, required=["city"])
    tools = [McpTool("ask", read_only=True, elicitations=[form])]
    server = ScriptedMcpServer(tmp_path, tools)
    config = {**server.config, "env": {**server.config["env"], "WHO": SECRET}}  # type: ignore[dict-item]
    script: list[list[Step]] = [
        [exec_command("touch made", justification="May I?")],
        [mcp_call("notes", "ask", {})],
        [Text("Done.")],
    ]
    path = tmp_path / "t.jsonl"
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, mcp_servers={"notes": config}) as home,
    ):
        arguments = ("--transcript", str(path), "--transcript-wire")
        command = (sys.executable, "-P", "-m", "codex_acp", *arguments)
        spec = AgentSpec(command, env=home.env, inherit_env=False)
        async with (
            AgentRuntime(permissions=allow, on_form=fill_in) as runtime,
            runtime.open(spec, cwd=home.workspace) as session,
        ):
            result = await session.run("Go on.")
    assert result.stop_reason == "end_turn"
    text = path.read_text()
    assert TYPED not in text
    assert SECRET not in text
    wire = [
        event for line in text.splitlines() if (event := json.loads(line))["schema_version"] == 2
    ]
    unanswered = Counter((e["peer"], e["method"]) for e in wire if e["kind"] == "request")
    unanswered.subtract((e["peer"], e["method"]) for e in wire if e["kind"] == "response")
    assert {what for what, count in unanswered.items() if count} == set()
    methods = {event["method"] for event in wire}
    assert methods >= {"initialize", "session/new", "session/prompt", "thread/start", "turn/start"}
    rows = page_data(read(str(path)), Selection()).rows
    behind = {
        (str(row["kind"]), str(row["verb"])): len(row["wire"])  # type: ignore[arg-type]
        for row in rows
        if "wire" in row
    }
    assert behind == {
        ("session", "opened"): 2, ("prompt", "started"): 2, ("prompt", "ended"): 2,
        ("approval", "asked"): 4, ("approval", "accepted"): 4,
        ("elicitation", "asked"): 4, ("elicitation", "answered"): 4,
    }  # fmt: skip
    assert {row["title"] for row in rows if row["kind"] == "elicitation"} == {"Where?"}
