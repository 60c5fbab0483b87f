"""Questions, options, commands and earlier sessions of an agent of version 2, as ever."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from codex_acp.acp import types, v2
from codex_acp.acp.types import ContentToolCallContent, TextContentBlock, UnknownVariant
from codex_acp.errors import ErrorReply
from codex_acp.runtime import AgentRuntime, AgentStartError, Form, Permission, kind_of
from tests.runtime.scripted_agent import ScriptedAgent
from tests.runtime.scripted_agent_v2 import ScriptedAgentV2

Json = dict[str, Any]
WAIT = 60.0


def text(words: str) -> Json:
    return {"type": "text", "text": words}


SUBJECTS: dict[str, Json | None] = {
    "command": {"type": "command", "command": "rm -r x", "cwd": "/w"},
    "tool_call": {"type": "tool_call", "toolCall": {"toolCallId": "t", "title": "Edit a"}},
    "unknown": {"type": "_spell", "words": "sim"},
    "none": None,
}
OPTIONS: list[Json] = [
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "e", "name": "Ever", "kind": "_allow_for_ever"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]


async def asked(agent: ScriptedAgentV2, subject: Json | None) -> Json:
    request = {
        "sessionId": "s1", "title": "May it?", "description": "Because.", "options": OPTIONS,
        **({} if subject is None else {"subject": subject}),
    }  # fmt: skip
    answer = await agent.side.v2.session_request_permission(
        v2.RequestPermissionRequest.model_validate(request)
    )
    outcome: Json = answer.model_dump(by_alias=True, exclude_unset=True)["outcome"]
    return outcome


@pytest.mark.parametrize(
    ("subject", "title", "kind"),
    [
        ("command", "rm -r x", "execute"),
        ("tool_call", "Edit a", "other"),
        ("unknown", "May it?", "other"),
        ("none", "May it?", "other"),
    ],
)
async def test_a_permission_is_asked_as_ever(subject: str, title: str, kind: str) -> None:
    agent = ScriptedAgentV2()
    seen: list[Permission] = []

    def policy(permission: Permission) -> str | None:
        seen.append(permission)
        return "y"

    async with AgentRuntime(permissions=policy) as runtime, runtime.open(agent.spec()):
        with anyio.fail_after(WAIT):
            outcome = await asked(agent, SUBJECTS[subject])
    assert outcome == {"outcome": "selected", "optionId": "y"}
    (permission,) = seen
    assert (permission.tool_call.title, permission.kind) == (title, kind)
    assert [option.option_id for option in permission.options] == ["y", "n"]
    assert permission.request.model_extra is not None
    assert permission.request.model_extra["title"] == "May it?"
    assert "Because." in said(permission)[-1]


def said(permission: Permission) -> list[str]:
    """What the content of its tool call says."""
    shown = (c for c in permission.tool_call.content if isinstance(c, ContentToolCallContent))
    return [c.content.text for c in shown if isinstance(c.content, TextContentBlock)]


@pytest.mark.parametrize("before", [["shown before"], ["shown before", "Because."]])
@pytest.mark.parametrize("kind", ["command", "tool_call"])
async def test_why_it_is_asked_stands_once_behind_what_was_shown(
    kind: str, before: list[str]
) -> None:
    agent = ScriptedAgentV2()
    seen: list[Permission] = []
    shown = [{"type": "content", "content": text(words)} for words in before]
    subject = {**(SUBJECTS[kind] or {}), "toolCallId": "t"}
    async with AgentRuntime(permissions=seen.append) as runtime, runtime.open(agent.spec()):
        agent.say({"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": shown})
        with anyio.fail_after(WAIT):
            await asked(agent, subject if kind == "command" else SUBJECTS[kind])
    assert said(seen[0]) == ["shown before", "Because."]


@pytest.mark.parametrize("choice", ["e", None, "x"])
async def test_an_option_of_an_unknown_kind_is_never_chosen(choice: str | None) -> None:
    agent = ScriptedAgentV2()
    async with AgentRuntime(permissions=lambda _: choice) as runtime, runtime.open(agent.spec()):
        with anyio.fail_after(WAIT):
            outcome = await asked(agent, SUBJECTS["command"])
    assert outcome == {"outcome": "selected", "optionId": "n"}


async def test_a_form_is_asked_and_what_is_no_form_declined() -> None:
    agent = ScriptedAgentV2()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"sessionId": "s1", "message": "How many?", "mode": "form", "requestedSchema": schema}

    def answer(form: Form) -> dict[str, int]:
        assert form.message == "How many?"
        return {"n": 3}

    async with AgentRuntime(on_form=answer) as runtime, runtime.open(agent.spec()):
        with anyio.fail_after(WAIT):
            ask = agent.side.v2.elicitation_create
            given = await ask(v2.SessionFormCreateElicitationRequest.model_validate(form))
            odd = await ask(UnknownVariant.model_validate({**form, "mode": "_dance"}))
    assert isinstance(given, v2.AcceptCreateElicitationResponse)
    assert given.content == {"n": 3}
    assert isinstance(odd, v2.DeclineCreateElicitationResponse)
    introduced = agent.asked[0]
    assert isinstance(introduced, v2.InitializeRequest)
    assert introduced.capabilities is not None
    assert introduced.capabilities.elicitation is not None
    assert introduced.capabilities.elicitation.form is not None


async def test_options_and_commands_are_those_of_the_answer() -> None:
    agent = ScriptedAgentV2()
    async with AgentRuntime() as runtime, runtime.open(agent.spec()) as session:
        assert [option.id for option in session.options.all] == ["model", "fast"]
        model = session.options.model
        assert [(c.value, c.group) for c in model.choices] == [("m1", "Some"), ("m2", "More")]
        with anyio.fail_after(WAIT):
            await model.set("m2")
            await session.options.set("fast", value=True)
            await session.run("Go.")
        fast = session.options.get("fast")
        assert fast is not None
        assert fast.current_value is True
        assert [command.name for command in session.commands] == ["plan"]
        assert not session.options.mode
        assert session.features.prompt_image
    sent = [each for each in agent.asked if hasattr(each, "config_id")]
    assert [type(each) for each in sent] == [
        v2.IdSetSessionConfigOptionRequest,
        v2.BooleanSetSessionConfigOptionRequest,
    ]


async def test_an_earlier_session_comes_back_with_its_history() -> None:
    agent = ScriptedAgentV2()
    agent.on_resume = lambda: agent.say(
        {"sessionUpdate": "user_message", "messageId": "u", "content": [text("Hi"), text("!")]},
        {"sessionUpdate": "agent_message", "messageId": "b", "content": [text("Hello.")]},
    )
    async with (
        AgentRuntime() as runtime,
        runtime.open(agent.spec(), session_id="s1", cwd="/w") as session,
    ):
        assert session.opened.how == "load"
        assert [kind_of(update) for update in session.history] == [
            "user_message_chunk", "user_message_chunk", "agent_message_chunk",
        ]  # fmt: skip
        with anyio.fail_after(WAIT):
            await session.run("Go.")
        assert [command.name for command in session.commands] == ["plan"]
        await session.delete()
    resumed = [each for each in agent.asked if isinstance(each, v2.ResumeSessionRequest)]
    assert [type(each.replay_from) for each in resumed] == [v2.StartReplayFrom]
    assert any(isinstance(each, v2.DeleteSessionRequest) for each in agent.asked)
    assert any(isinstance(each, v2.CloseSessionRequest) for each in agent.asked)


async def test_servers_say_their_type_and_logins_are_those_that_can_be_used() -> None:
    agent = ScriptedAgentV2()
    server = types.StdioMcpServer(name="n", command="/bin/x", args=["a"], env=[])
    async with AgentRuntime() as runtime:
        described = await runtime.describe(agent.spec())
        assert [method.id for method in described.auth_methods] == ["web"]
        async with runtime.open(agent.spec(), mcp_servers=[server]):
            pass
    (new,) = [each for each in agent.asked if isinstance(each, v2.NewSessionRequest)]
    assert new.mcp_servers == [v2.StdioMcpServer(name="n", command="/bin/x", args=["a"], env=[])]


async def test_the_highest_version_is_spoken_unless_the_program_says_otherwise() -> None:
    first = ScriptedAgent()
    async with AgentRuntime() as runtime, runtime.open(first.spec()) as session:
        assert (await session.run("Go.")).stop_reason == "end_turn"
    (request,) = first.initialized_with
    assert request.protocol_version == 2
    assert request.client_capabilities is not None
    second = ScriptedAgentV2()
    async with AgentRuntime() as runtime:
        with pytest.raises((AgentStartError, ErrorReply), match="not supported"):
            await runtime.open(second.spec(version=1))
