"""The directories and ids of a session as a client may send them, with the real Codex."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codex_acp.testing import CodexHome, ScriptedModel, Text
from tests.e2e.raw_adapter import RawAdapter


@pytest.fixture
def home() -> Iterator[CodexHome]:
    with ScriptedModel([[Text("Hi.")]]) as model, CodexHome(model.base_url) as home:
        yield home


@pytest.mark.attack("client")
def test_what_is_no_directory_is_refused_whichever_way_a_session_is_opened(
    home: CodexHome, tmp_path: Path
) -> None:
    here, file = str(home.workspace), tmp_path / "file"
    file.touch()
    with RawAdapter(home.env) as adapter:
        adapter.initialize()
        session = adapter.new_session(home.workspace)
        adapter.answer(adapter.start_prompt(session))
        for path, why in {
            str(tmp_path / "none"): "is not a directory",
            str(file): "is not a directory",
            "/tmp\0": "holds a NUL character",
            "relative": "is not an absolute path",
        }.items():
            for method in ("session/new", "session/load", "session/resume", "session/fork"):
                for cwd, more in ((path, []), (here, [path])):
                    params: dict[str, object] = {"cwd": cwd, "additionalDirectories": more}
                    params |= {"mcpServers": [], "sessionId": session}
                    error = adapter.ask(method, params)["error"]
                    assert error["code"] == -32602
                    assert why in error["message"]
        assert "result" in adapter.ask("session/list", {"cwd": here})


@pytest.mark.parametrize(
    "spelt",
    [str.upper, "{{{}}}".format, "urn:uuid:{}".format, lambda text: text.replace("-", "")],
    ids=["upper", "braces", "urn", "plain"],
)
def test_another_spelling_of_an_id_deletes_the_session_that_is_open(
    home: CodexHome, spelt: Callable[[str], str]
) -> None:
    with RawAdapter(home.env) as adapter:
        adapter.initialize()
        session = adapter.new_session(home.workspace)
        adapter.answer(adapter.start_prompt(session))
        other = {"sessionId": spelt(session), "cwd": str(home.workspace), "mcpServers": []}
        assert adapter.ask("session/load", other)["error"]["code"] == -32002
        assert "result" in adapter.ask("session/delete", {"sessionId": spelt(session)})
        assert adapter.answer(adapter.start_prompt(session))["error"]["code"] == -32002
        assert session not in str(adapter.ask("session/list", {})["result"])
