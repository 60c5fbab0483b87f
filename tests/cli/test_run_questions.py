"""The questions of ``codex-acp-sdk run``: whatever is not a clear answer rejects."""

from __future__ import annotations

import io
from typing import Any

import pytest

from codex_acp.acp.types import (
    ElicitationSchema,
    PermissionOption,
    RequestPermissionRequest,
    SessionFormCreateElicitationRequest,
    SessionUrlCreateElicitationRequest,
    ToolCallUpdate,
)
from codex_acp.cli.run_questions import LineReader, Questions
from codex_acp.cli.run_screen import TextOutput
from codex_acp.runtime import FormAnswer, Permission, ToolCall

YES = PermissionOption(option_id="y", name="Yes", kind="allow_once")
NO = PermissionOption(option_id="n", name="No", kind="reject_once")


class Typed(LineReader):
    """Lines that are typed; None is Ctrl-D."""

    def __init__(self, *lines: str | None) -> None:
        super().__init__()
        self.lines = list(lines)
        self.dropped = 0

    def drop(self) -> None:
        self.dropped += 1

    async def line(self) -> str | None:
        return self.lines.pop(0)


def questions(*lines: str | None) -> tuple[Questions, io.StringIO, Typed]:
    shown, reader = io.StringIO(), Typed(*lines)
    return Questions(TextOutput(io.StringIO(), shown), reader, "agent"), shown, reader


def permission() -> Permission:
    options = [YES, NO]
    request = RequestPermissionRequest(
        session_id="s", tool_call=ToolCallUpdate(tool_call_id="t"), options=options
    )
    return Permission("s", ToolCall("t", title="rm"), tuple(options), request)


@pytest.mark.parametrize(
    ("typed", "option"),
    [
        ("1", YES),
        (" 2 ", NO),
        ("", None),
        ("0", None),
        ("3", None),
        ("-1", None),
        ("y", None),
        ("yes", None),
        ("1 2", None),
        ("\u0661", None),
        (None, None),
    ],
)
async def test_only_a_number_of_an_option_chooses(
    typed: str | None, option: PermissionOption | None
) -> None:
    asking, _, reader = questions(typed)
    assert await asking.permission(permission()) == option
    assert reader.dropped == 1


def form(**properties: dict[str, Any]) -> SessionFormCreateElicitationRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return SessionFormCreateElicitationRequest(
        session_id="s",
        message="Who?\x1b[2J",
        requested_schema=ElicitationSchema.model_validate(schema),
    )


NAME = {"type": "string", "minLength": 2}


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["n"], "decline"),
        ([""], "cancel"),
        ([None], "cancel"),
        (["maybe"], "cancel"),
        (["y", "Ann", "y"], {"name": "Ann"}),
        (["Y", "A", "", "Ann", "YES"], {"name": "Ann"}),
        (["y", "Ann", ""], "cancel"),
        (["y", "Ann", None], "cancel"),
        (["y", None], "cancel"),
    ],
)
async def test_a_form_is_sent_only_whole_and_after_a_clear_yes(
    lines: list[str | None], answer: FormAnswer
) -> None:
    asking, shown, reader = questions(*lines)
    assert await asking.form(form(name=NAME)) == answer
    assert reader.lines == []
    assert "\x1b" not in shown.getvalue()
    assert "Who?⟦U+001B⟧[2J" in shown.getvalue()


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "integer", "minimum": 1}, ["x", "0", "7"], 7),
        ({"type": "number"}, ["x", "nan", "1.5"], 1.5),
        ({"type": "boolean"}, ["maybe", "No"], False),
        ({"type": "string", "enum": ["red", "blue"]}, ["3", "green", "2"], "blue"),
        ({"type": "string", "oneOf": [{"const": "c", "title": "Calm"}]}, ["1"], "c"),
        (
            {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]}},
            ["3", "1, 2"],
            ["mo", "tu"],
        ),
        ({"type": "string", "default": "Ann"}, [""], "Ann"),
        ({"type": "string", "format": "date"}, ["tomorrow", "2026-01-31"], "2026-01-31"),
    ],
)
async def test_each_kind_of_field_is_asked_until_it_fits(
    field: dict[str, Any], typed: list[str], value: object
) -> None:
    asking, _, reader = questions("y", *typed, "y")
    assert await asking.form(form(field=field)) == {"field": value}
    assert reader.lines == []


async def test_a_field_may_be_left_out_and_an_unknown_one_is() -> None:
    asking, _, _ = questions("y", "Ann", "", "y")
    asked = form(name=NAME, note={"type": "string"}, odd={"type": "matrix"})
    assert await asking.form(asked) == {"name": "Ann"}


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y", "accept"), ("YES", "accept"), ("n", "decline"), ("", "cancel"), (None, "cancel")],
)
async def test_a_url_is_shown_with_its_host_and_opened_by_nobody_but_the_person(
    typed: str | None, answer: str
) -> None:
    asking, shown, _ = questions(typed)
    request = SessionUrlCreateElicitationRequest(
        session_id="s",
        message="Log in",
        url="https://good.example@evil.example/\u202e",
        elicitation_id="e",
    )
    assert await asking.url(request) == answer
    assert "a page of evil.example:" in shown.getvalue()
    assert "https://good.example@evil.example/⟦U+202E⟧" in shown.getvalue()
