"""What the real Codex reports beside messages and tool calls, as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codex_acp.testing import (
    AppServerScript,
    CodexHome,
    Disconnect,
    Expect,
    Notify,
    Reasoning,
    ScriptedCodex,
    ScriptedModel,
    Step,
    Text,
    Usage,
    agent_message,
    turn_completed,
    turn_started,
    update_plan,
)
from tests.e2e.either_version import EitherVersion
from tests.e2e.raw_adapter import Message, RawAdapter

ALL: Message = {"session": {"notices": {}, "compaction": {}}}
"""The capabilities that make a difference here."""


class Session:
    """One session of the real command; ``updates`` are those of its prompts."""

    def __init__(self, adapter: RawAdapter, workspace: Path, capabilities: Message) -> None:
        self.adapter = adapter
        params = {"protocolVersion": 1, "clientCapabilities": capabilities}
        assert "result" in adapter.ask("initialize", params)
        self.id = adapter.new_session(workspace)

    def prompt(self) -> Message:
        """Run one prompt; returns its answer."""
        return self.adapter.answer(self.adapter.start_prompt(self.id))

    def updates(self, kind: str) -> list[Message]:
        """The updates of one kind, in order."""
        found = []
        for message in self.adapter.messages:
            if message.get("method") == "session/update":
                update = message["params"]["update"]
                if update["sessionUpdate"] == kind:
                    found.append(update)
        return found

    def text(self, kind: str) -> str:
        """The joined text of the chunks of one kind."""
        return "".join(update["content"]["text"] for update in self.updates(kind))


@contextmanager
def session(
    *script: Sequence[Step], capabilities: Message | None = None, **home: Any
) -> Iterator[Session]:
    """With the real Codex and a model that says what ``script`` says."""
    with (
        ScriptedModel(script) as model,
        CodexHome(model.base_url, **home) as codex_home,
        RawAdapter(codex_home.env) as adapter,
    ):
        yield Session(adapter, codex_home.workspace, capabilities or {})


def test_the_summary_of_the_reasoning_is_one_thought_apart_from_the_message() -> None:
    with session([Reasoning("**Looking** at ", "it."), Text("Done.")]) as one:
        one.prompt()

        thoughts = [u for u in one.updates("agent_thought_chunk") if "messageId" in u]
        assert "".join(u["content"]["text"] for u in thoughts) == "**Looking** at it."
        assert len({u["messageId"] for u in thoughts}) == 1
        assert one.text("agent_message_chunk") == "Done."


def test_the_models_plan_is_the_clients_plan() -> None:
    plan = update_plan(("Look", "in_progress"), ("Mend", "pending"), explanation="Two steps.")
    with session([plan], [Text("Done.")]) as one:
        one.prompt()

        assert [update["entries"] for update in one.updates("plan")] == [
            [
                {"content": "Look", "priority": "medium", "status": "in_progress"},
                {"content": "Mend", "priority": "medium", "status": "pending"},
            ]
        ]
        assert "Two steps." in one.text("agent_thought_chunk")


def test_the_use_of_the_context_is_told_after_each_request_to_the_model() -> None:
    with session([Text("Done."), Usage(1_000, 20, 100, 5)]) as one:
        one.prompt()

        ((update),) = one.updates("usage_update")
        assert update["used"] == 1_020
        assert update["size"] > 100_000


def test_a_retry_is_said_once_for_its_cause_and_the_prompt_ends_well() -> None:
    retries = {"model_providers": {"scripted": {"stream_max_retries": 3}}}
    cut = [Disconnect()]
    with session(cut, cut, [Text("Done.")], capabilities=ALL, config=retries) as one:
        answer = one.prompt()

        said = [u for u in one.updates("notice") if u["title"].startswith("Retrying: ")]
        assert [u["severity"] for u in said] == ["warning"]
        assert "stream disconnected" in said[0]["description"]
        assert answer["result"]["stopReason"] == "end_turn"
        assert one.text("agent_message_chunk") == "Done."


def test_a_model_that_codex_does_not_know_is_a_warning_said_once() -> None:
    with session([Text("One.")], [Text("Two.")], capabilities=ALL, model="made-up") as one:
        one.prompt()
        one.prompt()

        said = [u for u in one.updates("notice") if "made-up" in u["title"]]
        assert [u["severity"] for u in said] == ["warning"]


def test_a_client_without_notices_is_told_in_a_thought() -> None:
    with session([Text("One.")], model="made-up") as one:
        one.prompt()

        assert one.updates("notice") == []
        assert "`made-up` not found" in one.text("agent_thought_chunk")


COMPACTED: tuple[Sequence[Step], ...] = (
    [Text("One."), Usage(9_000, 10)],
    [Text("In short: one.")],
    [Text("Two.")],
)
"""The second prompt finds the context too full: the second answer is its summary."""

SMALL = {"model_auto_compact_token_limit": 5_000}


def test_a_compaction_is_one_tool_call_that_completes() -> None:
    with session(*COMPACTED, config=SMALL) as one:
        one.prompt()
        one.prompt()

        ((call),) = one.updates("tool_call")
        assert (call["title"], call["kind"]) == ("Compact conversation", "think")
        assert [(u["toolCallId"], u["status"]) for u in one.updates("tool_call_update")] == [
            (call["toolCallId"], "completed")
        ]
        assert one.updates("compaction_update") == []
        assert one.text("agent_message_chunk").endswith("Two.")


def test_a_client_that_knows_compactions_is_told_of_one() -> None:
    with session(*COMPACTED, config=SMALL, capabilities=ALL) as one:
        one.prompt()
        one.prompt()

        statuses = [update["status"] for update in one.updates("compaction_update")]
        assert statuses == ["in_progress", "completed"]
        assert one.updates("tool_call") == []


def test_the_name_of_the_thread_is_the_title_of_the_session(tmp_path: Path) -> None:
    named = Notify("thread/name/updated", {"threadId": "${turn:threadId}", "threadName": "Mended"})
    entries = [Expect("turn/start"), *turn_started(), named, *agent_message("Done.")]
    script = AppServerScript(*entries, *turn_completed(), defaults=True)
    codex = ScriptedCodex(tmp_path, script)
    with CodexHome() as home, RawAdapter({**home.env, "CODEX_PATH": str(codex.path)}) as adapter:
        one = Session(adapter, home.workspace, {})
        one.prompt()

        titles = [update["title"] for update in one.updates("session_info_update")]
        assert titles == ["Go.", "Mended"], "the first line of the prompt until it has a name"


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_line_of_the_prompt_is_the_title_that_is_told_once(version: int) -> None:
    with EitherVersion(version, [[Text("Hi.")]] * 3) as it:

        def titles() -> list[object]:
            return [each["title"] for each in it.updates(session_id, "session_info_update")]

        session_id = it.new()
        it.prompt(session_id, "/status")
        assert titles() == [], "a command is none"
        it.prompt(session_id, "Mend it.\nBut slowly.")
        it.prompt(session_id, "Go on.")
        assert titles() == ["Mend it."]
        where = {"sessionId": session_id, "cwd": str(it.home.workspace)}
        it.adapter.ask("session/resume", {**where, "mcpServers": []} if version == 1 else where)
        it.prompt(session_id, "Go on.")
        assert titles() == ["Mend it."], "the list has it"
