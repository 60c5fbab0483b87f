"""The same with the real Codex: one adapter runs a rich thread, another one loads it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest

from codex_acp.testing import (
    McpTool,
    Reasoning,
    ScriptedMcpServer,
    Step,
    Text,
    add_file,
    apply_patch,
    exec_command,
    mcp_call,
    update_plan,
    view_image,
)
from tests.e2e.session_bench import SessionBench, updates_of
from tests.sent_to_clients.comparing import Shown, assert_same, shown
from tests.support.tool_call_samples import PNG
from tests.support.updates import NONE

pytestmark = pytest.mark.e2e

EDIT: Final = """*** Begin Patch
*** Update File: a.txt
@@
-one
+ONE
*** Delete File: b.txt
*** End Patch
"""

RESULT: Final = {
    "content": [
        {"type": "text", "text": "A note."},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "note://n1", "name": "n1"},
    ]
}

SCRIPT: Final[list[list[Step]]] = [
    [Reasoning("**Look** ", "first."), exec_command("cat a.txt", call_id="read")],
    [exec_command("for i in 1 2 3; do echo $i; done; exit 3", call_id="fails")],
    [update_plan(("Look", "completed"), ("Mend", "in_progress"), explanation="So far.")],
    [add_file("new.txt", "x\ny", call_id="add"), apply_patch(EDIT, call_id="edit")],
    [mcp_call("notes", "read_note", {"name": "n1"}, call_id="note")],
    [mcp_call("notes", "lose_note", call_id="lost")],
    [view_image("x.png", call_id="look")],
    [Text("All ", "done.")],
    [exec_command("echo again", call_id="again")],
    [Text("Once more.")],
]

TOOLS: Final = [
    McpTool("read_note", read_only=True, result=RESULT),
    McpTool("lose_note", read_only=True, result={"content": [], "isError": True}),
]


def without_whole_texts(what: Shown) -> Shown:
    """The edit of a file without its diff, which is the whole texts or the patch: `comparing`."""
    edit: dict[str, Any] = {**what.calls["edit"], "content": None}
    return what._replace(calls={**what.calls, "edit": edit})


def test_another_process_loads_in_the_end_what_was_shown_live(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, TOOLS)
    servers = {"notes": server.config}
    with SessionBench(SCRIPT, sandbox_mode="workspace-write", mcp_servers=servers) as bench:
        (bench.home.workspace / "a.txt").write_text("one\n")
        (bench.home.workspace / "b.txt").write_text("bye\n")
        (bench.home.workspace / "x.png").write_bytes(base64.b64decode(PNG))
        with bench.adapter() as adapter:
            session = bench.new(adapter)
            bench.run(adapter, session, "Go.")
            bench.run(adapter, session, "And again.")
            live = shown(updates_of(adapter.messages, session), NONE)
        with bench.adapter() as adapter:
            assert "result" in bench.ask(adapter, "session/load", session)
            loaded = shown(updates_of(adapter.messages, session), NONE)

    names = {"read", "fails", "add", "edit", "note", "lost", "look", "again"}
    assert live.calls.keys() == names
    assert_same(without_whole_texts(live), without_whole_texts(loaded), names)
    assert list(live.texts) == list(loaded.texts)
    assert list(loaded.texts.values()) == ["**Look** first.", "All done.", "Once more."]
    assert "ONE" in json.dumps(loaded.calls["edit"]["content"])
    assert "A note." in json.dumps(loaded.calls["note"]["content"])
