"""Items that are shown as tool calls, as Codex sends them: the cases that make a difference.

Shapes of commands, file changes and image views are those of codex 0.169; the rest is the schema.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Json = dict[str, Any]

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

FILES: Final = {"/w/a.py": "one\nTWO\nthree\n"}
"""Texts of the files that could be read when the samples complete."""


class ItemSample(NamedTuple):
    """An item as it starts (if it is seen to) and as it ends."""

    case: str
    started: Json | None
    completed: Json


def command(script: str = "make", status: str = "completed", **more: Any) -> Json:
    """A command; ``more`` replaces fields."""
    ended = status != "inProgress"
    return {
        "type": "commandExecution",
        "id": "item",
        "command": f"/bin/bash -lc '{script}'",
        "cwd": "/w",
        "processId": "42",
        "source": "unifiedExecStartup",
        "status": status,
        "commandActions": [{"type": "unknown", "command": script}],
        "aggregatedOutput": "built\n" if ended else None,
        "exitCode": 0 if ended else None,
        "durationMs": 12 if ended else None,
        **more,
    }


def file_change(*changes: Json, status: str = "completed") -> Json:
    """A file change; without ``changes`` an edit of ``/w/a.py``."""
    edit = {
        "path": "/w/a.py",
        "kind": {"type": "update", "move_path": None},
        "diff": "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n",
    }
    return {
        "type": "fileChange",
        "id": "item",
        "status": status,
        "changes": list(changes) or [edit],
    }


def mcp(status: str = "completed", **more: Any) -> Json:
    """A call of ``notes``'s ``read_note``."""
    return {
        "type": "mcpToolCall",
        "id": "item",
        "server": "notes",
        "tool": "read_note",
        "arguments": {"name": "n1"},
        "status": status,
        **more,
    }


def _dynamic(status: str, **more: Any) -> Json:
    fields = {"tool": "lookup", "namespace": "shop", "arguments": {"sku": 7}, "status": status}
    return {"type": "dynamicToolCall", "id": "item", **fields, **more}


def _search(**more: Any) -> Json:
    return {"type": "webSearch", "id": "item", "query": "", **more}


def _agents(status: str, **more: Any) -> Json:
    fields = {"tool": "spawnAgent", "senderThreadId": "root", "status": status}
    return {
        "type": "collabAgentToolCall",
        "id": "item",
        "receiverThreadIds": [],
        "agentsStates": {},
        **fields,
        **more,
    }


_READ: Final = {"type": "read", "command": "cat a.py", "name": "a.py", "path": "/w/a.py"}
_LIST: Final = {"type": "listFiles", "command": "ls src", "path": "src"}
_GREP: Final = {"type": "search", "command": "rg x", "query": "x", "path": None}
_MCP_RESULT: Final = {
    "content": [
        {"type": "text", "text": "A note."},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "note://n1", "name": "n1"},
        {"type": "resource", "resource": {"uri": "note://n1", "text": "A note."}},
        {"type": "hologram", "depth": 3},
    ],
    "structuredContent": {"length": 7},
}

_COMMANDS: Final = (
    ItemSample("", command(status="inProgress"), command()),
    ItemSample(
        "that fails",
        command("make test", "inProgress"),
        command("make test", "failed", aggregatedOutput="1 failed\n", exitCode=2),
    ),
    ItemSample(
        "declined", None, command("rm -r x", "declined", aggregatedOutput=None, exitCode=None)
    ),
    ItemSample("cut off", None, command("sleep 99", "inProgress")),
    ItemSample("that only reads", None, command("cat a.py", commandActions=[_READ])),
    ItemSample("that only searches", None, command("ls src; rg x", commandActions=[_LIST, _GREP])),
    ItemSample("of several lines", None, command("cat <<E\nhi\nE")),
)

_FILE_CHANGES: Final = (
    ItemSample("", file_change(status="inProgress"), file_change()),
    ItemSample(
        "of several files",
        None,
        file_change(
            {"path": "/w/new.py", "kind": {"type": "add"}, "diff": "x = 1\n"},
            {"path": "/w/old.py", "kind": {"type": "delete"}, "diff": "bye\n"},
            {
                "path": "/w/b.py",
                "kind": {"type": "update", "move_path": "/w/c.py"},
                "diff": "@@ -7,1 +7,1 @@\n-b\n+c\n\n\nMoved to: /w/c.py",
            },
        ),
    ),
    ItemSample(
        "deleted",
        None,
        file_change({"path": "/w/old.py", "kind": {"type": "delete"}, "diff": "bye\n"}),
    ),
    ItemSample("declined", None, file_change(status="declined")),
)

_TOOLS: Final = (
    ItemSample("", mcp("inProgress"), mcp(result=_MCP_RESULT, durationMs=5, readOnlyHint=True)),
    ItemSample("that fails", None, mcp("failed", error={"message": "no such note"})),
    ItemSample(
        "",
        _dynamic("inProgress"),
        _dynamic(
            "completed",
            success=True,
            contentItems=[
                {"type": "inputText", "text": "In stock."},
                {"type": "inputImage", "imageUrl": f"data:image/png;base64,{PNG}"},
            ],
        ),
    ),
    ItemSample(
        "",
        None,
        {"type": "functionCallOutput", "id": "item", "name": "lookup", "output": "In stock."},
    ),
)

_AGENTS: Final = (
    ItemSample(
        "",
        _agents("inProgress", prompt="Count the files."),
        _agents(
            "completed",
            prompt="Count the files.",
            receiverThreadIds=["child"],
            agentsStates={"child": {"status": "completed", "message": "Nine."}},
        ),
    ),
    ItemSample(
        "interrupted", None, _agents("interrupted", tool="wait", receiverThreadIds=["a", "b"])
    ),
    ItemSample(
        "",
        None,
        {
            "type": "subAgentActivity",
            "id": "item",
            "kind": "started",
            "agentPath": "/root/counter",
            "agentThreadId": "child",
        },
    ),
)

_OTHERS: Final = (
    ItemSample(
        "",
        _search(),
        _search(
            query="acp",
            action={"type": "search", "query": "acp"},
            results=[{"url": "https://a.example/", "title": "A", "snippet": "About A."}, {"n": 1}],
        ),
    ),
    ItemSample(
        "of a page", None, _search(action={"type": "openPage", "url": "https://a.example/"})
    ),
    ItemSample("", None, {"type": "imageView", "id": "item", "path": "/w/a picture.png"}),
    ItemSample(
        "",
        {"type": "imageGeneration", "id": "item", "status": "in_progress", "result": ""},
        {
            "type": "imageGeneration",
            "id": "item",
            "status": "generating",
            "revisedPrompt": "A cat.",
            "result": PNG,
            "savedPath": "/w/cat.png",
        },
    ),
    ItemSample(
        "refused",
        None,
        {
            "type": "imageGeneration",
            "id": "item",
            "status": "failed",
            "result": "",
            "failure": {"type": "usageLimitExceeded", "limitId": "images"},
        },
    ),
    ItemSample(
        "as a file",
        None,
        {"type": "imageGeneration", "id": "item", "status": "completed", "fileId": "file-1"},
    ),
    ItemSample("", None, {"type": "sleep", "id": "item", "durationMs": 1500}),
    ItemSample("unknown", None, {"type": "telepathy", "id": "item", "thought": ["hi"]}),
)

SAMPLES: Final = (*_COMMANDS, *_FILE_CHANGES, *_TOOLS, *_AGENTS, *_OTHERS)
"""Every type of item that is a tool call."""
