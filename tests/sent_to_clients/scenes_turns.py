"""Scenes about what else happens in a turn: messages, plans, questions, agents, errors."""

from __future__ import annotations

import json
from typing import Any, Final

from codex_acp.testing import (
    CodexHome,
    Disconnect,
    Fail,
    ModelResponse,
    Reasoning,
    Step,
    Text,
    ToolCall,
    Usage,
    exec_command,
    request_user_input,
    update_plan,
)
from codex_acp.testing.model_script import CustomToolCall
from tests.sent_to_clients.scene import Scene

DONE: Final[list[Step]] = [Text("Done.")]
GO: Final = {"prompt": "Go."}
ALL: Final[dict[str, Any]] = {"session": {"notices": {}, "compaction": {}}}
FORMS: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
CODE_MODE: Final[dict[str, Any]] = {"model": "gpt-6-astra"}
AGENTS: Final[dict[str, Any]] = {
    "config": {"features": {"multi_agent": True, "multi_agent_v2": True}}
}
SMALL: Final[dict[str, Any]] = {"config": {"model_auto_compact_token_limit": 5_000}}
ASKS: Final[dict[str, Any]] = {"config": {"features": {"default_mode_request_user_input": True}}}
RETRIES: Final[dict[str, Any]] = {
    "config": {"model_providers": {"scripted": {"stream_max_retries": 3}}}
}
QUESTION: Final = {
    "id": "color",
    "header": "Color",
    "question": "Which color?",
    "options": [
        {"label": "Red", "description": "like a rose"},
        {"label": "Blue", "description": "like the sky"},
    ],
}

_ASYNC: Final = {"questions": [{"title": "Which color?", "options": ["Red", "Blue"]}]}

_TALK: Final = (
    Scene(
        "message",
        "A message behind a reasoning of two parts, and the tokens that it took.",
        [[Reasoning("**Look** ", "at it."), Text("Do", "ne."), Usage(1_000, 20, 100, 5)]],
        keep=("account/rateLimits/updated", "thread/status/changed", "thread/tokenUsage/updated"),
    ),
    Scene(
        "plan",
        "The model's plan, which it changes.",
        [
            [update_plan(("Look", "in_progress"), ("Mend", "pending"), explanation="Two steps.")],
            [update_plan(("Look", "completed"), ("Mend", "in_progress"))],
            DONE,
        ],
    ),
    Scene(
        "question",
        "The model asks the person, who answers.",
        [[request_user_input(QUESTION, call_id="ask")], DONE],
        (GO, {"answer": {"action": "accept", "content": {"color": "Red"}}}),
        capabilities=FORMS,
        home=ASKS,
    ),
    Scene(
        "question-unseen",
        "The same, of a client that shows no forms: declined, and said.",
        [[request_user_input(QUESTION, call_id="ask")], DONE],
        home=ASKS,
    ),
)

_COMPACTED: Final[tuple[list[Step], ...]] = (
    [Text("One."), Usage(9_000, 10)],
    [Text("In short: one.")],
    [Text("Two.")],
)
_TWICE: Final = ({"prompt": "One?"}, {"prompt": "Two?"})

_THREAD: Final = (
    Scene("compaction", "Codex makes room in the context.", _COMPACTED, _TWICE, home=SMALL),
    Scene(
        "compaction-known",
        "The same, for a client that knows compactions.",
        _COMPACTED,
        _TWICE,
        home=SMALL,
        capabilities=ALL,
    ),
    Scene(
        "compaction-wanted",
        "The person wants it: `/compact`.",
        [[Text("One.")], [Text("In short: one.")]],
        (GO, {"prompt": "/compact"}),
    ),
    Scene(
        "review",
        "A review: `/review`.",
        [[Text("Looks good.")]],
        ({"prompt": "/review the tests"},),
    ),
    Scene(
        "goal",
        "A goal that the person sets, and the model reaches.",
        [[ToolCall("update_goal", {"status": "complete"}, call_id="reach")], DONE],
        ({"prompt": "/goal Make the tests pass"}, {"prompt": "/goal clear"}),
    ),
    Scene("title", "The session gets a title.", [DONE], (GO, {"title": "My work"})),
)

_TROUBLE: Final = (
    Scene(
        "warning",
        "A model that Codex does not know: said once.",
        [[Text("One.")], [Text("Two.")]],
        ({"prompt": "One?"}, {"prompt": "Two?"}),
        home={"model": "made-up"},
        early=("configWarning", "warning"),
    ),
    Scene(
        "warning-noticed",
        "The same, for a client that shows notices.",
        [[Text("One.")]],
        home={"model": "made-up"},
        capabilities=ALL,
        early=("configWarning", "warning"),
    ),
    Scene(
        "retry",
        "The model is cut off twice, and tried again.",
        [[Disconnect()], [Disconnect()], DONE],
        home=RETRIES,
    ),
    Scene("failure", "The turn fails.", [[Fail(400, "No such model.")]]),
    Scene(
        "mcp-startup",
        "An MCP server that does not start.",
        [DONE],
        home={"mcp_servers": {"broken": {"command": "/nonexistent/server"}}},
        early=("mcpServer/startupStatus/updated",),
    ),
)


_SCRIPT: Final = """
const asked = {cmd: "read x; echo got $x", tty: true, yield_time_ms: 300};
const started = await tools.exec_command(asked);
const ended = await tools.write_stdin({session_id: started.session_id, chars: "yes\\n"});
text(ended.output);
"""


def _spawn(task: str) -> ToolCall:
    arguments = {"task_name": "helper", "message": task, "fork_turns": "none"}
    return ToolCall("spawn_agent", arguments, namespace="collaboration", call_id="spawn")


_AGENTS: Final = (
    Scene(
        "sub-agents",
        "The model starts a sub-agent and waits for it.",
        [
            ModelResponse(
                _spawn("Count the files."),
                when=lambda r: r.last_user_text == "Go." and not r.tool_outputs,
            ),
            ModelResponse(
                ToolCall("wait_agent", {"timeout_ms": 30_000}, "collaboration", call_id="wait"),
                when=lambda r: "spawn" in r.tool_outputs and "wait" not in r.tool_outputs,
            ),
            ModelResponse(Text("Nine, it says."), when=lambda r: "wait" in r.tool_outputs),
            ModelResponse(Text("Nine.")),
        ],
        home=AGENTS,
    ),
    Scene(
        "code-mode",
        "A model in code mode: its script runs a command that waits for input, and types it.",
        [[CustomToolCall("exec", _SCRIPT, call_id="x1")], DONE],
        home=CODE_MODE,
    ),
    Scene(
        "question-async",
        "A model in code mode asks and does not wait for the answer.",
        [[ToolCall("request_user_input_async", _ASYNC, "functions", call_id="q1")], DONE],
        home=CODE_MODE,
    ),
    Scene(
        "sleep",
        "A model in code mode waits.",
        [[ToolCall("sleep", {"duration_ms": 100}, "clock", call_id="z1")], DONE],
        home=CODE_MODE,
    ),
)

_BLOCKS: Final = """\
test -e "$TMPDIR/once" || {
  touch "$TMPDIR/once"; echo '{"decision": "block", "reason": "Run the tests first."}'
}"""

_TRUSTED: Final = "sha256:fe8b759ac6ba89e8a981221e3f01a565cd9730a923412d873afbc2393f0c7b0d"
"""What Codex makes of the hook's definition; a hook that is not trusted does not run."""


def _hook(home: CodexHome) -> None:
    file = home.codex_home / "hooks.json"
    hook = {"hooks": [{"type": "command", "command": _BLOCKS}]}
    file.write_text(json.dumps({"hooks": {"Stop": [hook]}}), "utf-8")
    with home.config_file.open("a") as config:
        config.write(f'\n[hooks.state."{file}:stop:0:0"]\ntrusted_hash = "{_TRUSTED}"\n')


def _verdict(outcome: str) -> str:
    verdict = {"risk_level": "high", "user_authorization": "low", "rationale": "Nobody asked."}
    return json.dumps({**verdict, "outcome": outcome})


_OVERSEEN: Final = (
    Scene(
        "hook",
        "A hook of the person's own does not let the turn end before its time.",
        [[Text("One.")], [Text("Two.")]],
        home={"config": {"features": {"hooks": True}}},
        prepare=_hook,
    ),
    Scene(
        "auto-review",
        "Commands that ask to leave the sandbox are reviewed by a model: one may, one may not.",
        [
            [exec_command("echo hi", justification="May I?", call_id="c1")],
            [Text(_verdict("allow"))],
            [exec_command("echo ho", justification="May I?", call_id="c2")],
            [Text(_verdict("deny"))],
            DONE,
        ],
        home={"config": {"approvals_reviewer": "auto_review"}},
    ),
)

SCENES: Final = (*_TALK, *_THREAD, *_TROUBLE, *_AGENTS, *_OVERSEEN)
