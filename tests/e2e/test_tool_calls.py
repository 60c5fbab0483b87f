"""Tool calls of the real Codex, as a client without any capability sees them, and one like Zed."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio

from codex_acp.acp.types import ClientCapabilities, EnvVariable, SessionNotification, StdioMcpServer
from codex_acp.testing import (
    McpTool,
    ModelResponse,
    ScriptedMcpServer,
    Step,
    Text,
    apply_patch,
    exec_command,
    mcp_call,
    view_image,
)
from codex_acp.wire.codec import encode
from tests.e2e.adapter_bench import AdapterBench
from tests.support.tool_call_samples import PNG
from tests.support.tool_calls import ZED, Folded, text_of
from tests.support.updates import NONE

Json = dict[str, Any]

DONE: list[Step] = [Text("Done.")]
ZED_CLIENT = ClientCapabilities.model_validate({"_meta": {"terminal_output": True}})


def _written(notification: SessionNotification) -> str:
    return encode(notification.update).decode()


def updates_of(bench: AdapterBench) -> list[Json]:
    return [json.loads(encode(notification.update)) for notification in bench.updates]


def folded(bench: AdapterBench, *, zed: bool = False) -> Folded:
    client = Folded(ZED if zed else NONE)
    client.take(updates_of(bench))
    return client


async def run(bench: AdapterBench) -> dict[str, Json]:
    """One prompt; the tool calls as the client has them at its end."""
    response = await bench.prompt(await bench.new_session())
    assert response.stop_reason == "end_turn"
    calls = folded(bench).calls
    assert all(call["status"] in ("completed", "failed") for call in calls.values())
    return calls


async def test_a_command_shows_itself_its_output_and_its_exit_code() -> None:
    script: list[list[Step]] = [
        [exec_command("echo hello && printf 'no newline'", call_id="good")],
        [exec_command("echo oops >&2; exit 3", call_id="bad")],
        DONE,
    ]
    async with AdapterBench(script) as bench:
        calls = await run(bench)

    good, bad = calls["good"], calls["bad"]
    assert (good["title"], good["kind"]) == ("`echo hello && printf 'no newline'`", "execute")
    assert good["status"] == "completed"
    assert text_of(good) == "```\nhello\nno newline\n```\nExit code: 0"
    assert good["rawInput"]["command"].endswith("\"echo hello && printf 'no newline'\"")
    assert good["rawOutput"]["exitCode"] == 0
    assert (bad["status"], text_of(bad)) == ("failed", "```\noops\n```\nExit code: 3")


async def test_a_command_that_only_reads_is_told_in_words_and_whole_below() -> None:
    async with AdapterBench([[exec_command("cat a.txt", call_id="read")], DONE]) as bench:
        (bench.home.workspace / "a.txt").write_text("content\n")
        calls = await run(bench)
        place = str(bench.home.workspace / "a.txt")

    call = calls["read"]
    assert (call["title"], call["kind"]) == ("Read a.txt", "read")
    assert call["locations"] == [{"path": place}]
    assert text_of(call) == "```sh\ncat a.txt\n```\n```\ncontent\n```\nExit code: 0"


async def test_the_output_of_a_running_command_is_shown_before_it_ends() -> None:
    # Codex does not stream the very first output of a command: one line is not enough.
    wait = "echo begun; until test -e go; do sleep 0.1; echo tick; done; echo ended"
    async with AdapterBench(
        [[exec_command(wait, call_id="slow", yield_time_ms=20_000)], DONE]
    ) as bench:
        session = await bench.new_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.prompt, session)
            await bench.wait_for_update(lambda n: "tick\\n```" in _written(n))
            (bench.home.workspace / "go").touch()
        calls = folded(bench).calls

    text = text_of(calls["slow"])
    assert text.startswith("```\nbegun\ntick\n")
    assert text.endswith("\nended\n```\nExit code: 0")


PATCH = """*** Begin Patch
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


async def test_a_patch_shows_whole_files_before_and_after() -> None:
    numbers = "one\ntwo\nthree\nfour\nfive\n"
    async with AdapterBench(
        [[apply_patch(PATCH, call_id="patch")], DONE], sandbox_mode="workspace-write"
    ) as bench:
        root = bench.home.workspace
        (root / "a.txt").write_text(numbers)
        (root / "b.txt").write_text("hello\nworld")
        (root / "d.txt").write_text("bye\n")
        calls = await run(bench)
        after = (root / "a.txt").read_text()
        first = next(u for u in updates_of(bench) if u.get("toolCallId") == "patch")

    assert after == numbers.replace("three", "THREE")
    call = calls["patch"]
    expected = {
        root / "a.txt": (numbers, after),
        root / "sub" / "c.txt": ("hello\nworld", "hello there\nworld\n"),
        root / "d.txt": ("bye\n", ""),
        root / "new" / "e.txt": (None, "x\n"),
    }
    shown = [d for d in call["content"] if d["type"] == "diff"]
    diffs = {Path(d["path"]): (d["oldText"], d["newText"]) for d in shown}
    assert diffs == expected
    (moved,) = [d["content"]["text"] for d in call["content"] if d["type"] == "content"]
    # A path with an underscore, as the folder's random name may have one, is shown as code.
    assert moved.replace("`", "") == f"{root / 'b.txt'} moves to {root / 'sub' / 'c.txt'}"
    assert call["status"] == "completed"
    assert call["title"].startswith("Change 4 files: ")
    assert {(Path(place["path"]).name, place.get("line")) for place in call["locations"]} == {
        ("a.txt", 3),
        ("b.txt", 1),
        ("c.txt", 1),
        ("d.txt", None),
        ("e.txt", 1),
    }
    assert first["sessionUpdate"] == "tool_call"
    assert first["content"] == call["content"], "before the files change it is the same diff"


async def test_the_result_of_an_mcp_tool_is_shown_with_its_arguments(tmp_path: Path) -> None:
    server = ScriptedMcpServer(tmp_path, [McpTool("read_note", read_only=True, text="the note")])
    command, *arguments = server.argv
    given = StdioMcpServer(
        name="notes",
        command=command,
        args=arguments,
        env=[EnvVariable(name="PYTHONPATH", value=os.pathsep.join(sys.path))],
    )
    # A turn does not wait for the server, and a call before it is ready finds no tool: again.
    script = [
        ModelResponse(*DONE, when=lambda r: "the note" in str(r.tool_outputs)),
        ModelResponse(mcp_call("notes", "read_note", {"name": "n1"}), repeat=True),
    ]
    async with AdapterBench(script) as bench:
        session = await bench.new_session([given])
        await bench.prompt(session)
        call = list(folded(bench).calls.values())[-1]

    assert (call["title"], call["status"], call["kind"]) == (
        "notes: `read_note`",
        "completed",
        "read",
    )
    assert call["rawInput"] == {"server": "notes", "tool": "read_note", "arguments": {"name": "n1"}}
    assert '"name": "n1"' in text_of(call)
    assert call["content"][-1]["content"] == {"type": "text", "text": "```\nthe note\n```"}


async def test_an_image_that_is_looked_at_is_linked() -> None:
    async with AdapterBench([[view_image("x.png", call_id="look")], DONE]) as bench:
        path = bench.home.workspace / "x.png"
        path.write_bytes(base64.b64decode(PNG))
        call = (await run(bench))["look"]

    assert (call["title"], call["kind"], call["status"]) == (
        "View image x.png",
        "read",
        "completed",
    )
    assert call["locations"] == [{"path": str(path)}]
    assert call["content"][0]["content"]["uri"] == path.as_uri()


async def test_a_client_like_zed_gets_the_output_in_a_terminal() -> None:
    async with AdapterBench(
        [[exec_command("echo hello", call_id="run")], DONE], capabilities=ZED_CLIENT
    ) as bench:
        await bench.prompt(await bench.new_session())
        client = folded(bench, zed=True)
        metas = [u.get("_meta") or {} for u in updates_of(bench)]
        ends = [meta["terminal_exit"] for meta in metas if "terminal_exit" in meta]

    assert client.calls["run"]["content"] == [{"type": "terminal", "terminalId": "run"}]
    assert client.terminals == {"run": "hello\n"}
    assert ends == [{"terminal_id": "run", "exit_code": 0, "signal": None}]


async def test_4_5_a_command_that_outlives_its_turn_is_done_and_says_that_it_runs_on() -> None:
    serve = exec_command("echo up; exec sleep 60", call_id="server", yield_time_ms=250)
    async with AdapterBench([[serve], DONE]) as bench:
        call = (await run(bench))["server"]

    assert call["status"] == "completed"
    assert "Runs on in the background." in text_of(call)


async def test_4_5_a_command_of_a_cancelled_turn_has_failed() -> None:
    script = [[exec_command("echo begun; exec sleep 60", call_id="long", yield_time_ms=20_000)]]
    async with AdapterBench(script) as bench:
        session = await bench.new_session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bench.prompt, session)
            await bench.wait_for_update(lambda n: '"long"' in _written(n))
            bench.cancel(session)
        call = folded(bench).calls["long"]

    assert call["status"] == "failed"
    assert call["title"] == "echo begun; exec sleep 60"
