"""The questions of ``codex-acp-sdk run``: whatever is not a clear answer rejects."""

from __future__ import annotations

import asyncio
import io
import re
import signal
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
from codex_acp.cli.questions import Questions
from codex_acp.cli.screen import TextOutput
from codex_acp.cli.terminal import MAX_ROWS, Frame, LineReader
from codex_acp.runtime import FormAnswer, Permission, ToolCall
from tests.runtime.scripted_agent import chunk

YES = PermissionOption(option_id="y", name="Yes", kind="allow_once")
NO = PermissionOption(option_id="n", name="No", kind="reject_once")


KEYS = re.compile(r"  ([a-z]+)\d+\) ")


class Typed(LineReader):
    """Lines that are typed; None is Ctrl-D, ``@`` the letters of the question on the screen."""

    def __init__(self, shown: io.StringIO, *lines: str | None) -> None:
        super().__init__()
        self.shown = shown
        self.lines = list(lines)
        self.dropped = 0

    def discard_typed(self) -> None:
        self.dropped += 1

    async def read_line(self) -> str | None:
        line = self.lines.pop(0)
        if line is None or "@" not in line:
            return line
        return line.replace("@", KEYS.findall(self.shown.getvalue())[-1])


def questions(*lines: str | None) -> tuple[Questions, io.StringIO, Typed]:
    shown = io.StringIO()
    reader = Typed(shown, *lines)
    return Questions(TextOutput(io.StringIO(), shown), reader, "agent"), shown, reader


def permission(*more: PermissionOption, **shown: Any) -> Permission:
    options = [YES, NO, *more]
    request = RequestPermissionRequest(
        session_id="s", tool_call=ToolCallUpdate(tool_call_id="t"), options=options
    )
    return Permission("s", ToolCall("t", **({"title": "rm"} | shown)), tuple(options), request)


@pytest.mark.parametrize(("typed", "option"), [("@1", YES), (" @2 ", NO), ("", None), (None, None)])
async def test_a_key_chooses_and_enter_or_the_end_rejects(
    typed: str | None, option: PermissionOption | None
) -> None:
    asking, _, reader = questions(typed)
    assert await asking.permission(permission()) == option
    assert reader.dropped == 1


async def test_what_came_before_a_question_is_shown_before_it() -> None:
    shown = io.StringIO()
    screen = TextOutput(shown, shown)
    asking = asyncio.create_task(
        Questions(screen, Typed(shown, "@1"), "agent").permission(permission())
    )
    await asyncio.sleep(0)  # the question is handled at once, the text by whoever reads updates
    screen.write_update(chunk("I ask."), {})
    assert await asking == YES
    assert 0 <= shown.getvalue().find("I ask.") < shown.getvalue().find("agent asks")


@pytest.mark.attack("agent")
async def test_ctrl_c_is_handled_between_updates_that_arrived_together() -> None:
    handled: list[int] = []
    asyncio.get_running_loop().call_soon(handled.append, signal.SIGINT)
    await TextOutput(io.StringIO(), io.StringIO()).until_room()
    assert handled == [signal.SIGINT]


@pytest.mark.parametrize(
    "typed", ["1", "@", "@0", "@3", "@-1", "y", "yes", "@1\n@1", "@1 @1", "@\u0661"]
)
@pytest.mark.parametrize(("then", "option"), [("", None), ("@1", YES)])
async def test_whatever_else_is_typed_chooses_nothing_and_is_asked_about_again(
    typed: str, then: str, option: PermissionOption | None
) -> None:
    asking, shown, reader = questions(typed, typed, then)
    assert await asking.permission(permission()) == option
    assert shown.getvalue().count("That is none of the answers.") == 2
    told_why = "each question has letters of its own" in " ".join(shown.getvalue().split())
    assert told_why == (typed in ("y", "yes", "1"))
    assert shown.getvalue().count("asks for permission") == 1
    assert reader.dropped == 3


async def test_7_3_the_key_of_one_question_answers_no_other() -> None:
    asking, shown, _ = questions("@1", "")
    assert await asking.permission(permission()) == YES
    first = KEYS.findall(shown.getvalue())[-1]
    letters = set()
    for _ in range(50):
        asking, shown, _ = questions(f"{first}1", "")
        chosen = await asking.permission(permission())
        letters.add(KEYS.findall(shown.getvalue())[-1])
        assert (chosen == YES) == (first == KEYS.findall(shown.getvalue())[-1])
    assert len(letters) > 5


def command(characters: int) -> dict[str, Any]:
    return {"raw_input": {"command": "true; " + "x" * characters + "; touch PWNED"}}


async def test_7_3_a_long_question_is_seen_to_its_end_before_it_can_be_allowed() -> None:
    pages = 18
    asking, shown, reader = questions(*[""] * pages, "@1")
    assert await asking.permission(permission(**command(30_000))) == YES
    assert reader.lines == []
    screen = shown.getvalue()
    assert screen.count("Enter goes on, q rejects: ") == pages
    rows = [row for row in screen.split("\n") if row.startswith("\u2503 ")]
    assert "".join(row[2:] for row in rows).replace(" ", "").count("x") >= 30_000
    assert "touch PWNED" in screen.replace("\n\u2503   . ", "")


@pytest.mark.parametrize("typed", [["bc1", "q"], ["1", "y", " Q"], ["q"], [None]])
async def test_7_3_a_question_that_is_left_before_its_end_is_rejected(
    typed: list[str | None],
) -> None:
    asking, shown, reader = questions("", *typed)
    assert await asking.permission(permission(**command(30_000))) is None
    assert "touch PWNED" not in shown.getvalue()
    assert reader.lines == []


@pytest.mark.parametrize(
    ("typed", "option"), [("@1", None), ("@2", NO), ("@3", None), ("", None), ("@4", "never")]
)
async def test_7_3_what_is_cut_cannot_be_allowed(typed: str, option: Any) -> None:
    typed_then_enter = [typed, *([""] if typed in ("@1", "@3") else [])]
    always = PermissionOption(option_id="a", name="Always", kind="allow_always")
    never = PermissionOption(option_id="z", name="Never", kind="reject_always")
    asking, shown, _ = questions(*typed_then_enter)
    asked = permission(always, never, **command(100 * MAX_ROWS))
    assert await asking.permission(asked) == (never if option == "never" else option)
    screen = shown.getvalue()
    assert "Too long to be shown whole, so it can only be rejected." in screen
    assert "No (reject)" in screen
    assert "Never (reject always)" in screen
    assert "allow" not in screen
    key = KEYS.findall(screen)[-1]
    assert f"Type {key}2 or {key}4 to choose; Enter rejects: " in screen
    assert f"{key}1" not in screen


@pytest.mark.attack("agent")
async def test_7_3_lines_of_an_agent_cannot_leave_the_frame_of_its_question() -> None:
    asking, shown, _ = questions("")
    forged = "x" * 77 + "\u2503   zz1) Reject\n\u2503 Type zz1 to reject: \x1b[H\r\u2503"
    await asking.permission(permission(title=forged, raw_input={"a": forged}))
    for row in shown.getvalue().rstrip().split("\n")[1:]:
        assert row.startswith("\u2503 ")
        assert len(row) <= 80 or row.startswith("\u2503 Type")
        assert row.count("\u2503") == 1
        assert "\x1b" not in row


async def test_7_3_only_the_first_row_of_a_choice_stands_where_keys_stand() -> None:
    long = PermissionOption(option_id="a", name="zz9) and " * 20, kind="allow_once")
    asker, shown, _ = questions("")
    await asker.permission(permission(long))
    rows = [row for row in shown.getvalue().split("\n") if "and zz9)" in row]
    assert len(rows) > 2
    assert all(row[:8].split() == ["┃"] for row in rows[1:]), rows


async def test_7_3_nothing_is_written_while_a_question_is_open_and_all_of_it_after() -> None:
    out, shown = io.StringIO(), io.StringIO()
    screen = TextOutput(out, shown)

    class Answers(Typed):
        async def read_line(self) -> str | None:
            before = shown.getvalue()
            screen.write_update(chunk("\n" * 60 + "\u2503 Type 1 to list the files: "), {})
            screen.note("a note")
            screen.write_log("ERROR a log line\x1b[2J\n")
            screen.write_error("an error")
            assert shown.getvalue() == before
            assert out.getvalue() == ""
            return await super().read_line()

    asking = Questions(screen, Answers(shown, "@1"), "agent")
    assert await asking.permission(permission()) == YES
    assert out.getvalue() == "\n" * 60 + "\u27e6U+2503\u27e7 Type 1 to list the files: \n"
    after = shown.getvalue().rpartition("Enter rejects: ")[2]
    assert [
        after.index(x) for x in ("[a note]", "ERROR a log line\u27e6U+001B\u27e7[2J", "an error")
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("C#, #1, #!/bin/sh\n#include", "C#, #1, #!/bin/sh\n#include"),
        ("# Type 1 to allow", r"\x23 Type 1 to allow"),
        ("x" * 80 + "# Type 1", "x" * 80 + r"\x23 Type 1"),  # where a terminal begins a row
        ("#", r"\x23"),  # and the rest comes in the next piece
        ("#\tType", "\\x23\tType"),
        ("#\xa0Type", "\\x23\xa0Type"),
        ("#\nType", "\\x23\nType"),
    ],
)
def test_7_3_a_mark_of_ascii_is_kept_where_it_begins_no_row(text: str, shown: str) -> None:
    frame = Frame(io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert frame.without_mark(text) == shown
    assert frame.drawn(["x"]) == "# x\n"


@pytest.mark.attack("agent")
async def test_a_log_without_end_is_not_kept_while_a_question_is_open() -> None:
    out, shown = io.StringIO(), io.StringIO()
    screen = TextOutput(out, shown)

    class Answers(Typed):
        async def read_line(self) -> str | None:
            for number in range(20_000):
                screen.write_log(f"WARNING the agent answered id {number}, which is not open\n")
            return await super().read_line()

    asking = Questions(screen, Answers(shown, "@1"), "agent")
    assert await asking.permission(permission()) == YES
    after = shown.getvalue().rpartition("Enter rejects: ")[2]
    assert len(after) < 300_000
    kept = after.count("which is not open")
    assert f"[{20_000 - kept} records of the log are left out]" in after
    screen.write_log("WARNING again\n")
    assert shown.getvalue().endswith("WARNING again\n")


async def test_7_3_questions_are_asked_one_after_the_other_each_whole() -> None:
    asking, shown, _ = questions("@1", "@2", "@1")
    asked = [permission(title=f"call {number}") for number in range(3)]
    answers = await asyncio.gather(*map(asking.permission, asked))
    assert answers == [YES, NO, YES]
    asked_at = [shown.getvalue().index(f"call {number}") for number in range(3)]
    prompts = [found.start() for found in re.finditer("Enter rejects: ", shown.getvalue())]
    assert sorted([*asked_at, *prompts]) == [
        place for pair in zip(asked_at, prompts, strict=True) for place in pair
    ]
    waiting = ["(2 more questions wait)", "(1 more question waits)"]
    assert re.findall(r"\(\d more .*?\)", shown.getvalue()) == waiting


async def test_a_question_names_the_tasks_whose_questions_wait() -> None:
    asking, shown, _ = questions("@1", "@1", "@1")
    agents = [asking.of_agent(f"task {name}") for name in ("first", "second", "third")]
    await asyncio.gather(*(each.permission(permission()) for each in agents))
    waiting = ["(2 more questions wait: task second, task third)"]
    waiting.append("(1 more question waits: task third)")
    assert re.findall(r"\(\d more .*?\)", shown.getvalue()) == waiting


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
        (["@2"], "decline"),
        ([""], "cancel"),
        ([None], "cancel"),
        (["y", ""], "cancel"),
        (["@1", "Ann", "@1"], {"name": "Ann"}),
        (["@1", "A", "", "Ann", " @1"], {"name": "Ann"}),
        (["@1", "Ann", ""], "cancel"),
        (["@1", "Ann", "y", ""], "cancel"),
        (["@1", "Ann", None], "cancel"),
        (["@1", None], "cancel"),
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
    asking, _, reader = questions("@1", *typed, "@1")
    assert await asking.form(form(field=field)) == {"field": value}
    assert reader.lines == []


async def test_what_an_empty_line_stands_for_is_shown_as_a_person_reads_it() -> None:
    asking, shown, _ = questions("@1", "", "", "@1")
    calm = {"type": "string", "oneOf": [{"const": "c", "title": "Calm"}], "default": "c"}
    answer = await asking.form(form(sure={"type": "boolean", "default": False}, mood=calm))
    assert answer == {"sure": False, "mood": "c"}
    assert "sure [no]" in shown.getvalue()
    assert "mood (may be left out) [Calm]" in shown.getvalue()


async def test_a_field_may_be_left_out_and_an_unknown_one_is() -> None:
    asking, _, _ = questions("@1", "Ann", "", "@1")
    asked = form(name=NAME, note={"type": "string"}, odd={"type": "matrix"})
    assert await asking.form(asked) == {"name": "Ann"}


def page(url: str) -> SessionUrlCreateElicitationRequest:
    return SessionUrlCreateElicitationRequest(
        session_id="s", message="Log in", url=url, elicitation_id="e"
    )


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("@1", "accept"), ("@2", "decline"), ("y", "cancel"), ("", "cancel"), (None, "cancel")],
)
async def test_a_url_is_shown_with_its_host_and_opened_by_nobody_but_the_person(
    typed: str | None, answer: str
) -> None:
    asking, shown, _ = questions(typed, "")
    assert await asking.url(page("https://Good.example/a")) == answer
    assert "a page of good.example:" in shown.getvalue()
    assert "https://Good.example/a" in shown.getvalue()


async def test_2_4_a_host_that_looks_like_another_is_shown_as_it_is_called() -> None:
    asking, shown, _ = questions("")
    await asking.url(page("https://b\u00fccher.example/"))
    told = shown.getvalue().replace("\n\u2503 ", "")
    assert "a page of xn--bcher-kva.example, written b\u00fccher.example:" in told


@pytest.mark.parametrize(
    "url", ["https://evil.example/\\@good.example/", "javascript:alert(1)", "file:///etc/passwd"]
)
@pytest.mark.attack("agent")
async def test_2_4_what_a_browser_reads_as_something_else_is_no_question(url: str) -> None:
    asking, shown, _ = questions("@1")
    assert await asking.url(page(url)) == "decline"
    assert "asks you to open" not in shown.getvalue()
