"""Scenes about tool calls: commands, edits, MCP tools, images."""

from __future__ import annotations

import base64
from typing import Any, Final

from codex_acp.testing import (
    CodexHome,
    McpTool,
    Step,
    Text,
    apply_patch,
    exec_command,
    form_elicitation,
    mcp_call,
    request_permissions,
    url_elicitation,
    view_image,
)
from tests.sent_to_clients.scene import Scene, until
from tests.support.tool_call_samples import PNG

DONE: Final[list[Step]] = [Text("Done.")]
GO: Final = {"prompt": "Go."}
ZED: Final = {"_meta": {"terminal_output": True}}
FORMS: Final[dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
WRITES: Final[dict[str, Any]] = {"sandbox_mode": "workspace-write"}
ESCALATED: Final = exec_command("touch made && echo hi", justification="May I?", call_id="c1")

_EDIT: Final = """*** Begin Patch
*** Update File: a.txt
@@
 two
-three
+THREE
 four
*** End Patch
"""

_EDITS: Final = """*** Begin Patch
*** Update File: a.txt
@@
 two
-three
+THREE
 four
*** Update File: b.txt
*** Move to: sub/c.txt
@@
-hello
+hello there
*** Delete File: d.txt
*** Add File: new/e.txt
+x
*** End Patch
"""

FILES: Final = {"a.txt": "one\ntwo\nthree\nfour\nfive\n", "b.txt": "hello\nworld", "d.txt": "bye\n"}


def _image(home: CodexHome) -> None:
    (home.workspace / "x.png").write_bytes(base64.b64decode(PNG))


_COMMANDS: Final = (
    Scene(
        "command",
        "Commands that end well and badly, the second without any output.",
        [
            [exec_command("echo hello && printf 'no newline'", call_id="good")],
            [exec_command("exit 3", call_id="bad")],
            DONE,
        ],
    ),
    Scene(
        "command-output",
        "The output of a command that takes its time.",
        [
            [
                exec_command(
                    "for i in 1 2 3; do echo $i; sleep 0.6; done",
                    call_id="slow",
                    yield_time_ms=20_000,
                )
            ],
            DONE,
        ],
    ),
    Scene(
        "command-terminal",
        "The same for a client that shows output in a terminal of its own, as Zed does.",
        [
            [
                exec_command(
                    "for i in 1 2 3; do echo $i; sleep 0.6; done",
                    call_id="slow",
                    yield_time_ms=20_000,
                )
            ],
            DONE,
        ],
        capabilities=ZED,
    ),
    Scene(
        "command-reads",
        "Commands that only read, list and search, told in words.",
        [
            [exec_command("cat a.txt", call_id="read")],
            [exec_command("ls", call_id="list")],
            [exec_command("grep -n two a.txt", call_id="search")],
            DONE,
        ],
        files=FILES,
    ),
    Scene(
        "command-approved",
        "A command that asks to leave the sandbox, and may.",
        [[ESCALATED], DONE],
        (GO, {"answer": "allow_once"}),
    ),
    Scene(
        "command-declined",
        "The same, declined: the turn goes on.",
        [[ESCALATED], DONE],
        (GO, {"answer": "reject_once"}),
    ),
    Scene(
        "command-cancelled",
        "The prompt is cancelled while its command is asked about.",
        [[ESCALATED]],
        (GO, until("requestApproval"), {"cancel": True}),
    ),
    Scene(
        "command-interrupted",
        "The prompt is cancelled while its command runs, of which Codex then tells nothing more.",
        [[exec_command("echo begun; exec sleep 60", call_id="long", yield_time_ms=20_000)]],
        (
            GO,
            until('"item/started", "params": {"item": {"type": "commandExecution"'),
            {"cancel": True},
        ),
    ),
)

_EDITS_SCENES: Final = (
    Scene(
        "patch",
        "A patch that edits, moves, deletes and adds; the files could be read.",
        [[apply_patch(_EDITS, call_id="patch")], DONE],
        files=FILES,
        home=WRITES,
    ),
    Scene(
        "patch-approved",
        "A patch that is asked about, and may.",
        [[apply_patch(_EDIT, call_id="patch")], DONE],
        (GO, {"answer": "allow_once"}),
        files=FILES,
    ),
    Scene(
        "patch-declined",
        "The same, declined.",
        [[apply_patch(_EDIT, call_id="patch")], DONE],
        (GO, {"answer": "reject_once"}),
        files=FILES,
    ),
)

_RESULT: Final = {
    "content": [
        {"type": "text", "text": "A note."},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "note://n1", "text": "A note."}},
        {"type": "resource_link", "uri": "note://n1", "name": "n1"},
    ],
    "structuredContent": {"length": 7},
}

_TOOLS: Final = (
    McpTool("read_note", read_only=True, result=_RESULT),
    McpTool(
        "lose_note",
        read_only=True,
        result={"content": [{"type": "text", "text": "Lost."}], "isError": True},
    ),
    McpTool("write_note", read_only=False, destructive=True, text="Written."),
)

_MCP: Final = (
    Scene(
        "mcp",
        "MCP tools that only read: one gives a result of many kinds, one an error.",
        [
            [mcp_call("notes", "read_note", {"name": "n1"}, call_id="read")],
            [mcp_call("notes", "lose_note", call_id="lose")],
            [mcp_call("notes", "no_such_tool", call_id="none")],
            DONE,
        ],
        tools=_TOOLS,
    ),
    Scene(
        "mcp-approved",
        "An MCP tool that may destroy something is asked about, and may for the session.",
        [[mcp_call("notes", "write_note", {"name": "n1"}, call_id="write")], DONE],
        (GO, {"answer": "allow_once"}),
        tools=_TOOLS,
    ),
    Scene(
        "mcp-declined",
        "The same, declined.",
        [[mcp_call("notes", "write_note", {"name": "n1"}, call_id="write")], DONE],
        (GO, {"answer": "reject_once"}),
        tools=_TOOLS,
    ),
    Scene(
        "mcp-form",
        "An MCP server asks with a form and with a page, and is answered.",
        [[mcp_call("notes", "ask", call_id="ask")], DONE],
        (
            GO,
            {"answer": {"action": "accept", "content": {"color": "red"}}},
            {"answer": {"action": "decline"}},
        ),
        capabilities=FORMS,
        tools=[
            McpTool(
                "ask",
                read_only=True,
                elicitations=[
                    form_elicitation(
                        "Which?", {"color": {"type": "string", "enum": ["red", "blue"]}}
                    ),
                    url_elicitation("Please agree", "https://a.example/terms"),
                ],
            )
        ],
    ),
)

_OTHERS: Final = (
    Scene(
        "view-image",
        "The model looks at an image.",
        [[view_image("x.png", call_id="look")], DONE],
        prepare=_image,
    ),
    Scene(
        "permissions",
        "The model asks for permissions, and gets them.",
        [[request_permissions("To fetch.", network=True, call_id="ask")], DONE],
        (GO, {"answer": "allow_once"}),
        home={"config": {"features": {"request_permissions_tool": True}}},
    ),
)

SCENES: Final = (*_COMMANDS, *_EDITS_SCENES, *_MCP, *_OTHERS)
