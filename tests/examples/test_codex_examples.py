"""The examples that drive Codex: each runs as a user would run it, with a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from codex_acp.testing import (
    McpTool,
    ModelResponse,
    ScriptedMcpServer,
    Text,
    ToolCall,
    When,
    exec_command,
    mcp_call,
)
from tests.codex.listening_server import ListeningServer
from tests.codex.test_turns_with_codex import PIXEL
from tests.examples.example_bench import codex, outcome, run, untested

pytestmark = pytest.mark.e2e


def test_quickstart() -> None:
    script = ([Text("Nothing.")], [exec_command("ls -t", call_id="c")], [Text("None ", "was.")])
    with codex(*script) as (home, _model):
        printed = run("codex_quickstart.py", home)
    assert printed.startswith("Nothing.\n(")
    assert "ls -t" in printed
    assert printed.endswith("None was.\n")


def test_structured_output() -> None:
    review = '{"summary": "Fine.", "risks": [{"file": "a.py", "line": null, "why": "old"}]}'
    with codex([Text(review)], [Text("Not a review.")]) as (home, _model):
        assert run("codex_structured_output.py", home) == "Fine.\n- a.py:?  old\n"
        assert run("codex_structured_output.py", home) == "This is no review: Not a review.\n"


def test_tools() -> None:
    script = (
        [ToolCall("stock", {"fruit": "pears"}, call_id="a")],
        [ToolCall("stock", {"fruit": "plums"}, call_id="b")],
        [ToolCall("order", {"fruit": "pears"}, call_id="c")],
        [Text("Ordered.")],
    )
    with codex(*script) as (home, model):
        done = outcome("codex_tools.py", home)
        outputs = model.requests[-1].tool_outputs
    assert done.stdout.splitlines()[0] == "stock({'fruit': 'pears'}) -> ok"
    assert "stock({'fruit': 'plums'}) -> failed" in done.stdout
    assert done.stdout.endswith("Ordered.\n")
    assert outputs["a"] == "0"
    assert "KeyError" in outputs["b"]
    assert done.returncode == 0
    assert outputs["c"] == "10 pears are on their way"
    assert "the tool stock failed" in done.stderr  # the program's log has the exception


@pytest.mark.parametrize(("said", "made"), [("y\n", True), ("n\n", False), ("", False)])
def test_approvals(said: str, made: bool) -> None:
    ask = exec_command("touch hello", justification="May I?", call_id="ask")
    with codex([ask], [Text("Done.")]) as (home, _model):
        printed = run("codex_approvals.py", home, said=said)
        assert (home.workspace / "hello").exists() is made
    assert "touch hello" in printed
    assert printed.endswith("Done.\n")


def test_service(tmp_path: Path) -> None:
    tool = McpTool("act", read_only=False, destructive=True)
    server = ScriptedMcpServer(tmp_path, [tool], name="notes")
    call = mcp_call("notes", "act", {}, call_id="c")
    script = [
        ModelResponse(call, when=When(user_text="one", no_tool_output="c")),
        ModelResponse(Text("One is done."), when=When(user_text="one", tool_output="c")),
        ModelResponse(Text("Two is done."), when=When(user_text="two")),
    ]
    with codex(*script, mcp_servers={"notes": server.config}) as (home, _model):
        printed = run("codex_service.py", home, "notes", "one", "two")
    assert printed == "one: One is done.\ntwo: Two is done.\n"
    assert len(server.received("tools/call")) == 1


def test_threads() -> None:
    answer = ModelResponse(Text("Seven."), repeat=True)
    with codex(answer) as (home, _model):
        assert run("codex_threads.py", home) == "Seven.\nSeven.\nThe thread has 2 turns.\n"
        listed, *rest = run("codex_threads.py", home).splitlines()
    assert listed.endswith("  A number")
    assert rest == ["Seven.", "Seven.", "The thread has 3 turns."]


def test_images(tmp_path: Path) -> None:
    file = tmp_path / "pixel.png"
    file.write_bytes(PIXEL)
    with codex([Text("A pixel.")], [Text("Still a pixel.")]) as (home, model):
        assert run("codex_images.py", home, str(file)) == "A pixel.\nStill a pixel.\n"
        assert str(model.requests[-1].body["input"]).count("'input_image'") == 2


def test_remote() -> None:
    with codex([Text("Here.")]) as (home, _model):
        token = home.root / "token"
        token.write_text("sesame")
        auth = ("--ws-auth", "capability-token", "--ws-token-file", str(token))
        with ListeningServer(home, "ws://127.0.0.1:0", *auth) as server:
            printed = run("codex_remote.py", home, server.url, env={"CODEX_TOKEN": "sesame"})
            assert printed.startswith("Connected to codex_acp_sdk/")
            assert printed.endswith("\nHere.\n")
            wrong = outcome("codex_remote.py", home, server.url)
    assert wrong.returncode == 1
    assert "refused the token" in wrong.stderr


def test_sync() -> None:
    script = (
        [ToolCall("line_count", {"path": "a.txt"}, call_id="c")],
        [Text("a.txt, with two lines.")],
        [Text("It has ", "much to say.")],
    )
    with codex(*script) as (home, model):
        (home.workspace / "a.txt").write_text("one\ntwo\n")
        printed = run("codex_sync.py", home)
        assert model.requests[1].tool_outputs["c"] == "2"
    assert printed == "a.txt, with two lines.\nIt has much to say.\n"


def test_every_example_is_run_by_a_test() -> None:
    assert untested("codex_*.py", __file__) == []
