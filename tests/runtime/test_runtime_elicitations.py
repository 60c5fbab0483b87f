"""Forms and URLs: offered only with a callback, and accepted only with an answer that fits."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from codex_acp.acp import types
from codex_acp.errors import ErrorReply
from codex_acp.runtime import AgentRuntime, Form, UrlAnswer, UrlRequest, problems_of
from tests.runtime.scripted_agent import ScriptedAgent

WAIT = 60.0

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5},
        "mail": {"type": "string", "format": "email"},
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": "number", "maximum": 1.0},
        "sure": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "tone": {"type": "string", "oneOf": [{"const": "c", "title": "Calm"}]},
        "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}, "maxItems": 1},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "odd": {"type": "matrix"},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"name": "Ann"}, None),
        ({"name": "Ann", "size": 9, "share": 1, "sure": False, "days": ["tu"]}, None),
        ({"name": "Ann", "mail": "a@b", "colour": "red", "tone": "c"}, None),
        ({"name": "Ann", "when": "2026-01-01T10:00:00Z"}, None),
        ({"name": "Ann", "mail": None}, None),
        ({}, "'name' is required"),
        ({"name": None}, "'name' is required"),
        ({"name": "A"}, "'name' must have at least 2"),
        ({"name": "Annabel"}, "'name' must have at most 5"),
        ({"name": 7}, "'name' must be text"),
        ({"name": "Ann", "mail": "nobody"}, "'mail' must be an email address"),
        ({"name": "Ann", "size": 0}, "'size' must be at least 1"),
        ({"name": "Ann", "size": 10**400}, "'size' must be a finite number that fits in 64 bits"),
        ({"name": "Ann", "size": True}, "'size' must be a number"),
        ({"name": "Ann", "size": 1.5}, "'size' must be a whole number"),
        ({"name": "Ann", "share": 1.1}, "'share' must be at most"),
        ({"name": "Ann", "share": float("nan")}, "'share' must be a finite number"),
        ({"name": "Ann", "sure": "yes"}, "'sure' must be true or false"),
        ({"name": "Ann", "colour": "green"}, "'colour' must be one of"),
        ({"name": "Ann", "tone": "Calm"}, "'tone' must be one of"),
        ({"name": "Ann", "days": "mo"}, "'days' must be a list"),
        ({"name": "Ann", "days": ["su"]}, "'days' must contain nothing but"),
        ({"name": "Ann", "days": ["mo", "tu"]}, "'days' must contain at most 1"),
        ({"name": "Ann", "when": "2026-01-01T10:00:00"}, "'when' must be a date and time"),
        ({"name": "Ann", "mail": "\u00fc@x"}, "'mail' must be an email address"),
        ({"name": "Ann", "day": "20251231"}, "'day' must be a date like"),
        ({"name": "Ann", "odd": 1}, "'odd' is of a kind that is not known"),
        ({"name": "Ann", "more": 1}, "1 field the form does not have"),
    ],
)
def test_content_is_held_against_the_form(content: dict[str, object], problem: str | None) -> None:
    problems = problems_of(types.ElicitationSchema.model_validate(SCHEMA), content)
    if problem is None:
        assert problems == ()
    else:
        assert len(problems) == 1
        assert problems[0].startswith(problem)


def form(session_id: str = "s1") -> types.SessionFormCreateElicitationRequest:
    return types.SessionFormCreateElicitationRequest(
        session_id=session_id,
        message="Who?",
        requested_schema=types.ElicitationSchema.model_validate(SCHEMA),
    )


def url(page: str = "https://example.com") -> types.SessionUrlCreateElicitationRequest:
    return types.SessionUrlCreateElicitationRequest(
        session_id="s1", message="Log in", url=page, elicitation_id="e1"
    )


class Eliciting(ScriptedAgent):
    """Asks in its prompt."""

    def __init__(self, request: types.CreateElicitationRequest) -> None:
        super().__init__()
        self.request = request
        self.answers: list[types.CreateElicitationResponse] = []
        self.asked = asyncio.Event()

    async def on_prompt(self, request: types.PromptRequest) -> types.PromptResponse:
        del request
        self.asked.set()
        self.answers.append(await self.side.elicitation_create(self.request))
        if self.cancelled.is_set():
            return types.PromptResponse(stop_reason="cancelled")
        return types.PromptResponse(stop_reason="end_turn")


async def answer(
    request: types.CreateElicitationRequest, **callbacks: Any
) -> types.CreateElicitationResponse:
    agent = Eliciting(request)
    with anyio.fail_after(WAIT):
        async with AgentRuntime(**callbacks) as runtime, runtime.open(agent.spec()) as session:
            await session.run("Go.")
    return agent.answers[0]


@pytest.mark.parametrize(
    ("callbacks", "told"),
    [
        ({}, None),
        ({"on_form": lambda _: "cancel"}, (True, False)),
        ({"on_url": lambda _: "cancel"}, (False, True)),
        ({"on_form": lambda _: "cancel", "on_url": lambda _: "cancel"}, (True, True)),
    ],
)
async def test_a_callback_is_what_makes_a_mode_offered(
    callbacks: dict[str, Any], told: tuple[bool, bool] | None
) -> None:
    agent = ScriptedAgent()
    async with AgentRuntime(**callbacks) as runtime, runtime.open(agent.spec()):
        capabilities = agent.initialized_with[0].client_capabilities
    assert capabilities is not None
    modes = capabilities.elicitation
    assert told == (None if modes is None else (modes.form is not None, modes.url is not None))


@pytest.mark.parametrize(
    ("request_", "callbacks"),
    [
        (form(), {}),
        (url(), {}),
        (form(), {"on_url": lambda _: "accept"}),
        (url(), {"on_form": lambda _: {"name": "Ann"}}),
        (form("another"), {"on_form": lambda _: {"name": "Ann"}}),
        (
            types.UnknownVariant.model_validate(
                {"mode": "_voice", "sessionId": "s1", "message": "?"}
            ),
            {"on_form": lambda _: {"name": "Ann"}, "on_url": lambda _: "accept"},
        ),
    ],
    ids=["no callback", "no url callback", "form to url", "url to form", "foreign", "new mode"],
)
async def test_what_was_not_offered_is_an_error(
    request_: types.CreateElicitationRequest, callbacks: dict[str, Any]
) -> None:
    with pytest.raises(ErrorReply):
        await answer(request_, **callbacks)


async def test_a_form_that_is_filled_in_is_accepted_with_its_content() -> None:
    seen: list[Form] = []

    async def fill(form: Form) -> dict[str, str]:
        seen.append(form)
        return {"name": "Ann"}

    told = await answer(form(), on_form=fill)
    assert told == types.AcceptCreateElicitationResponse(content={"name": "Ann"})
    assert seen == [form()]


async def test_a_form_that_nobody_could_fill_in_is_declined_unasked() -> None:
    fields = {f"f{number}": {"type": "boolean"} for number in range(10_000)}
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    endless = form().model_copy(
        update={"requested_schema": types.ElicitationSchema.model_validate(schema)}
    )
    response = await answer(endless, on_form=fails)
    assert isinstance(response, types.DeclineCreateElicitationResponse)


def fails(_form: object) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (lambda _: "decline", types.DeclineCreateElicitationResponse()),
        (lambda _: "cancel", types.CancelCreateElicitationResponse()),
        (lambda _: {"name": "A"}, types.CancelCreateElicitationResponse()),
        (lambda _: {}, types.CancelCreateElicitationResponse()),
        (lambda _: None, types.CancelCreateElicitationResponse()),
        (lambda _: "accept", types.CancelCreateElicitationResponse()),
        (lambda _: True, types.CancelCreateElicitationResponse()),
        (fails, types.CancelCreateElicitationResponse()),
    ],
)
async def test_nothing_but_content_that_fits_accepts_a_form(
    callback: Any, expected: types.CreateElicitationResponse
) -> None:
    assert await answer(form(), on_form=callback) == expected


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (lambda _: "accept", types.AcceptCreateElicitationResponse()),
        (lambda _: "decline", types.DeclineCreateElicitationResponse()),
        (lambda _: True, types.CancelCreateElicitationResponse()),
        (lambda _: None, types.CancelCreateElicitationResponse()),
        (fails, types.CancelCreateElicitationResponse()),
    ],
)
async def test_nothing_but_the_word_accepts_a_url(
    callback: Any, expected: types.CreateElicitationResponse
) -> None:
    assert await answer(url(), on_url=callback) == expected


@pytest.mark.parametrize(
    "page",
    [
        "https://evil.example/\\@good.example/",
        "https://good.example@evil.example/",
        "https://good.example\u2024evil.example/",
        "http://good.example/",
        "javascript:alert(1)",
        "file:///etc/passwd",
    ],
)
@pytest.mark.parametrize("session", [True, False], ids=["of a session", "of a request"])
@pytest.mark.attack("agent")
async def test_2_4_no_callback_is_given_a_url_that_a_browser_reads_as_another(
    page: str, session: bool, caplog: pytest.LogCaptureFixture
) -> None:
    request: types.CreateElicitationRequest = url(page)
    if not session:
        request = types.RequestUrlCreateElicitationRequest(
            request_id="1", message="Log in", url=page, elicitation_id="e1"
        )
    seen: list[str] = []

    def open_it(request: UrlRequest) -> UrlAnswer:
        seen.append(request.url)
        return "accept"

    assert await answer(request, on_url=open_it) == types.DeclineCreateElicitationResponse()
    assert seen == []
    assert "a page of the agent was declined: the URL was refused: " in caplog.text
    assert page not in caplog.text


async def test_a_url_that_is_done_is_told_once_and_only_if_it_was_opened() -> None:
    agent = Eliciting(url())
    done: list[str] = []
    async with (
        AgentRuntime(on_url=lambda _: "accept", on_url_done=done.append) as runtime,
        runtime.open(agent.spec()) as session,
    ):
        await session.run("Go.")
        for elicitation_id in ("other", "e1", "e1"):
            agent.side.elicitation_complete(
                types.CompleteElicitationNotification(elicitation_id=elicitation_id)
            )
        agent.request = url().model_copy(update={"elicitation_id": "e2"})
        await session.run("Go.")
    assert done == ["e1"]


async def test_a_form_of_a_request_outside_a_session_is_asked_too() -> None:
    agent = ScriptedAgent()
    told: list[types.CreateElicitationResponse] = []

    async def new(request: types.NewSessionRequest) -> types.NewSessionResponse:
        del request
        question = types.RequestFormCreateElicitationRequest(
            request_id=2,
            message="Which account?",
            requested_schema=types.ElicitationSchema.model_validate(SCHEMA),
        )
        told.append(await agent.side.elicitation_create(question))
        return types.NewSessionResponse(session_id="s1")

    agent.on(new=new)
    async with AgentRuntime(on_form=lambda _: {"name": "Ann"}) as runtime:
        await runtime.open(agent.spec())
    assert told == [types.AcceptCreateElicitationResponse(content={"name": "Ann"})]


async def test_a_cancel_settles_an_open_form() -> None:
    agent = Eliciting(form())

    async def never(_form: Form) -> str:
        await asyncio.Event().wait()
        raise AssertionError

    with anyio.fail_after(WAIT):
        async with (
            AgentRuntime(on_form=never) as runtime,  # type: ignore[arg-type] # it never answers
            runtime.open(agent.spec()) as session,
            session.prompt("Go.") as prompt,
        ):
            await agent.asked.wait()
            prompt.cancel()
            await prompt.result()
    assert agent.answers == [types.CancelCreateElicitationResponse()]
