"""The scripted MCP server behind the real Codex."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from codex_acp.testing import (
    CodexHome,
    McpScript,
    McpTool,
    ScriptedMcpServer,
    ScriptedModel,
    Text,
    form_elicitation,
    mcp_call,
    url_elicitation,
)
from tests.testing.codex_driver import CodexDriver

FORM = form_elicitation(
    "Please fill in the form",
    {"color": {"type": "string", "enum": ["red", "blue"]}, "sure": {"type": "boolean"}},
    required=["color"],
    meta={"vendor": {"hint": 1}},
)
PAGE = url_elicitation("Please open the page", "https://127.0.0.1/consent")


@dataclass
class Run:
    model: ScriptedModel
    server: ScriptedMcpServer
    codex: CodexDriver
    thread_id: str

    def asked(self) -> tuple[int | str, dict[str, object]]:
        """The id and params of the next elicitation."""
        request = self.codex.wait_for_method("mcpServer/elicitation/request")
        return request["id"], request["params"]

    def answer(self, request_id: int | str, action: str, content: object = None) -> None:
        result = {"action": action, "content": content, "_meta": None}
        self.codex.send({"id": request_id, "result": result})


@contextmanager
def running(directory: Path, script: McpScript) -> Iterator[Run]:
    """A turn in which the model calls the server's tool ``act``."""
    server = ScriptedMcpServer(directory, script)
    with ExitStack() as stack:
        call = mcp_call("notes", "act", {"name": "n1"}, call_id="call")
        model = stack.enter_context(ScriptedModel([[call], [Text("Done.")]]))
        home = stack.enter_context(CodexHome(model.base_url, mcp_servers={"notes": server.config}))
        codex = stack.enter_context(CodexDriver(home.env, home.workspace))
        thread_id = codex.start_thread(home.workspace)
        codex.start_turn(thread_id)
        yield Run(model, server, codex, thread_id)


def test_a_read_only_tool_runs_unasked(tmp_path: Path) -> None:
    tool = McpTool("act", "Read a note.", text="the note", read_only=True)
    with running(tmp_path, McpScript([tool])) as run:
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert "the note" in run.model.requests[1].tool_outputs["call"]
        assert not run.codex.params_of("mcpServer/elicitation/request")
        (call,) = run.server.received("tools/call")
        params = call["params"]
        assert isinstance(params, dict)
        assert params["arguments"] == {"name": "n1"}


@pytest.mark.parametrize(("action", "calls"), [("accept", 1), ("decline", 0)])
def test_a_destructive_tool_is_asked_about(tmp_path: Path, action: str, calls: int) -> None:
    tool = McpTool("act", "Overwrite a note.", read_only=False, destructive=True)
    with running(tmp_path, McpScript([tool])) as run:
        request_id, params = run.asked()
        meta = params["_meta"]
        assert isinstance(meta, dict)
        assert meta["codex_approval_kind"] == "mcp_tool_call"
        assert meta["tool_params"] == {"name": "n1"}
        run.answer(request_id, action)
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert len(run.server.received("tools/call")) == calls


def test_a_form_of_a_tool_reaches_the_client_and_its_answer_the_tool(tmp_path: Path) -> None:
    tool = McpTool("act", read_only=True, elicitations=[FORM])
    with running(tmp_path, McpScript([tool])) as run:
        request_id, params = run.asked()
        assert params["mode"] == "form"
        assert params["_meta"] == {"vendor": {"hint": 1}}
        assert params["requestedSchema"] == FORM["requestedSchema"]
        run.answer(request_id, "accept", {"color": "red", "sure": True})
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        (answer,) = run.server.answers()
        result = answer["result"]
        assert isinstance(result, dict)
        assert result["content"] == {"color": "red", "sure": True}
        assert "red" in run.model.requests[1].tool_outputs["call"]


def test_a_page_of_a_tool_reaches_the_client(tmp_path: Path) -> None:
    tool = McpTool("act", read_only=True, elicitations=[PAGE])
    with running(tmp_path, McpScript([tool])) as run:
        request_id, params = run.asked()
        assert (params["mode"], params["url"]) == ("url", "https://127.0.0.1/consent")
        run.answer(request_id, "decline")
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert "decline" in run.model.requests[1].tool_outputs["call"]


def test_an_elicitation_outside_a_tool_call_has_no_turn(tmp_path: Path) -> None:
    tool = McpTool("act", read_only=True)
    with running(tmp_path, McpScript([tool], triggers={"ask": FORM})) as run:
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        run.server.trigger("ask")
        request_id, params = run.asked()
        assert (params["threadId"], params["turnId"]) == (run.thread_id, None)
        run.answer(request_id, "cancel")
        run.codex.wait_for_method("serverRequest/resolved")


def test_a_slow_server_is_there_for_the_first_call(tmp_path: Path) -> None:
    tool = McpTool("act", text="the note", read_only=True)
    with running(tmp_path, McpScript([tool], start_delay=0.5)) as run:
        assert run.codex.finish_turn(run.thread_id)["status"] == "completed"
        assert "the note" in run.model.requests[1].tool_outputs["call"]


def test_an_elicitation_after_initialize_belongs_to_the_thread(tmp_path: Path) -> None:
    tool = McpTool("act", read_only=True)
    with running(tmp_path, McpScript([tool], after_initialize=[FORM])) as run:
        request = run.codex.find(
            lambda message: message.get("method") == "mcpServer/elicitation/request"
        )
        assert request["params"]["threadId"] == run.thread_id
        run.answer(request["id"], "decline")
        run.codex.find(lambda message: message.get("method") == "serverRequest/resolved")


def test_a_server_that_fails_to_start_is_reported(tmp_path: Path) -> None:
    script = McpScript(fail_status=3, fail_text="no database")
    with running(tmp_path, script) as run:
        run.codex.finish_turn(run.thread_id)
        status = run.codex.find(
            lambda message: (
                message.get("method") == "mcpServer/startupStatus/updated"
                and message["params"]["status"] == "failed"
            )
        )
        assert status["params"]["name"] == "notes"
        assert "act" in json.dumps(run.model.requests[1].tool_outputs["call"])
