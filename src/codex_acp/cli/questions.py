"""Ask the agent's questions in a terminal: permissions, forms and pages.

Owns the dialogue. Only a choice's key chooses it; Enter and Ctrl-D reject; after any other line the
question is asked again. Must not know where a question comes from.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from copy import copy
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.acp import types
from codex_acp.acp.form_answers import as_json, choices_of, misfit
from codex_acp.cli.terminal import (
    LEAST_COLUMNS,
    LEAST_ROWS,
    MAX_ROWS,
    Line,
    LineReader,
    Redraw,
    Style,
)
from codex_acp.cli.tool_calls import ASKED, describe_call, quote_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from codex_acp.cli.screen import TextOutput
    from codex_acp.runtime import Form, FormAnswer, Permission, UrlAnswer, UrlRequest

KEY_LETTERS: Final = "bcdfghjkmnpqrstvwxz"
"""Letters of a question's keys: no vowels, so no words, and no letter that looks like a digit."""
KEY_LENGTH: Final = 2
"""Number of random letters in a key."""
_NOT_NOW: Final = "Enter: not now"
GOES_ON: Final = "Enter goes on, q rejects: "
_MORE_ROWS: Final = "{} of {} rows; " + GOES_ON
_NO_ANSWER: Final = Line("That is none of the answers.", "  ", "yellow")
_WHY_KEYS: Final = Line(
    "A y could have been typed before the question, or because the agent's text asks for it. So "
    "each question has letters of its own: type the key in front of your choice.",
    "  ",
    "yellow",
)
_SHORT_ANSWERS: Final = frozenset(("yes", "no", "ok", *"ynaq", *"123456789"))
"""Answers that other programs expect."""
_TOO_LONG: Final = Line("Too long to be shown whole, so it can only be rejected.", "  ", "yellow")
_TOO_SMALL: Final = f"Too small: a question needs {LEAST_COLUMNS} columns and {LEAST_ROWS} rows."
_MOST_REJECTING: Final = 5
"""Most choices of a question that is too long to show: an agent can send any number."""
SHOWN_WAITING: Final = 5
"""Most other agents with waiting questions that a question names."""
TOGETHER_SECONDS: Final = 0.05
"""Time for earlier text and further questions to arrive before a question is shown."""
KIND_WORDS: Final = {
    "allow_once": "allow once",
    "allow_always": "allow always",
    "reject_once": "reject",
    "reject_always": "reject always",
}
"""Kind of an option → the words for a person."""
REJECTING: Final = ("reject_once", "reject_always")
"""Kinds of options that reject."""


class FieldSkipped(Exception):
    """The person skipped a field of a form."""


class FormLeft(Exception):
    """The person left the form, or a field cannot be shown whole."""


class _Choice(NamedTuple):
    """A choice of a question, and whether it rejects."""

    words: str
    rejects: bool


class Questions:
    """Asks one question at a time, even if the agent asks several at once.

    While a question is open, no other output is written. The person can answer only after the whole
    question was on the screen. The keys of the choices begin with random letters. So neither text
    typed before, nor an answer that a forged question asks for, is a key.

    ``alone`` makes a context for each open question, in which other readers of the terminal pause.
    """

    def __init__(
        self,
        screen: TextOutput,
        reader: LineReader,
        agent: str,
        alone: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        self._screen = screen
        self._reader = reader
        self.agent = agent
        """Name of the agent, or of its task, that the person sees."""
        self._alone = alone
        self._one_at_a_time = asyncio.Lock()
        self._waiting: list[str] = []
        """The agent of each question that waits for the open one."""

    def of_agent(self, agent: str) -> Questions:
        """Return the questions of another agent, which wait in one queue with these questions."""
        others = copy(self)
        others.agent = agent
        return others

    async def permission(self, permission: Permission) -> types.PermissionOption | None:
        """Ask for a permission; return the option that the person chose, None to reject."""
        options, call = permission.options, permission.tool_call
        first = Line(f"{self.agent} asks for permission: {ASKED.get(call.kind or '', '')}".rstrip())
        choices = [
            _Choice(_words_of(option), rejects=option.kind in REJECTING) for option in options
        ]
        async with self._open():
            chosen = await self._choose(
                lambda: chain([first], describe_call(call, verbose=self._screen.verbose)),
                choices,
                "Enter rejects",
            )
            if chosen is None:
                self._screen.note("rejected", "red")
        return None if chosen is None else options[chosen]

    async def form(self, form: Form) -> FormAnswer:
        """Ask to fill in a form; return its content, or ``decline`` or ``cancel``."""
        schema = form.requested_schema
        async with self._open():
            action = await self._offer(lambda: self._overview(form), "answer it")
            if action != "accept":
                return action
            content: dict[str, types.ElicitationContentValue] = {}
            for name, field in schema.properties.items():
                try:
                    content[name] = await self._ask_field(name, field, schema)
                except FormLeft:
                    return "cancel"
                except FieldSkipped:
                    continue
            chosen = await self._choose(
                lambda: _sum_up(schema, content), [_Choice("send it", rejects=False)], _NOT_NOW
            )
        return "cancel" if chosen is None else content

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """Ask whether the person agrees to open a page; open nothing."""
        page = allowed_url(request.url)
        if isinstance(page, RefusedUrl):  # the runtime has already declined this URL
            return "decline"
        host = page.host
        if page.host != page.host_as_written.lower():
            host += f", written {page.host_as_written}"
        lines = [
            Line(f"{self.agent} asks you to open a page of {host}:"),
            *quote_text(request.message),
            Line(request.url, "  ", "bold"),
        ]
        async with self._open():
            return await self._offer(lambda: lines, "open it")

    async def ask_to_agree(self, question: str) -> bool:
        """Ask a yes-or-no question of this program; Enter agrees, Ctrl-D does not."""
        async with self._open():
            while True:
                try:
                    answer = await self._ask(f"{question} [Y/n] ")
                except Redraw:
                    continue
                word = "no" if answer is None else answer.strip().lower()
                if word in ("", "y", "yes"):
                    return True
                if word in ("n", "no"):
                    return False

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Wait until no other question is open; hold other output back within the block."""
        agent = self.agent  # `self.agent` may change meanwhile
        self._waiting.append(agent)
        try:
            await self._one_at_a_time.acquire()
        finally:
            self._waiting.remove(agent)
        async with AsyncExitStack() as stack:
            stack.callback(self._one_at_a_time.release)
            await stack.enter_async_context(self._alone())
            if not self._waiting:
                await asyncio.sleep(TOGETHER_SECONDS)
            with self._screen.holding_back(), self._reader.noticing_changes():
                await self._screen.until_seen()
                self._screen.write_now("\n")
                try:
                    yield
                except asyncio.CancelledError:
                    # Half an answer must not reach the prompt or the shell.
                    self._reader.discard_typed()
                    self._screen.write_now("\n[the question was withdrawn]\n")
                    raise

    def _waiting_note(self) -> Iterator[Line]:
        """Yield a line with the number of waiting questions, if there are any, and their agents."""
        if self._waiting:
            more = "question waits" if len(self._waiting) == 1 else "questions wait"
            others = [agent for agent in self._waiting if agent != self.agent][:SHOWN_WAITING]
            names = f": {', '.join(others)}" if others else ""
            yield Line(f"({len(self._waiting)} more {more}{names})", "  ", "dim")

    async def _offer(self, lines: Callable[[], Iterable[Line]], words: str) -> UrlAnswer:
        """Show an elicitation with the choices ``words`` and "decline"."""
        choices = [_Choice(words, rejects=False), _Choice("decline", rejects=True)]
        chosen = await self._choose(lines, choices, _NOT_NOW)
        if chosen is None:
            return "cancel"
        return "decline" if choices[chosen].rejects else "accept"

    async def _choose(
        self, lines: Callable[[], Iterable[Line]], choices: Sequence[_Choice], on_enter: str
    ) -> int | None:
        """Show a question; return the index of the choice, None if the person rejects. A question
        that is too long to be shown can only be rejected. ``on_enter`` says what Enter does."""
        letters = "".join(secrets.choice(KEY_LETTERS) for _ in range(KEY_LENGTH))
        keys = [f"{letters}{number}" for number in range(1, len(choices) + 1)]
        named = " or ".join(keys) if len(keys) < 3 else f"one of {keys[0]} to {keys[-1]}"
        whole_prompt = _prompt_text(named, on_enter)
        rows = []
        for key, choice in zip(keys, choices, strict=True):
            style: Style = "red" if choice.rejects else "green"
            rows.append(Line(choice.words, f"  {key}) ", style, " " * len(f"  {key}) ")))
        while True:
            try:
                shown = chain(lines(), self._waiting_note())
                extent = await self._show(shown, [Line(""), *rows], whole_prompt)
                if extent == "left":
                    return None
                offered, prompt = list(range(len(choices))), whole_prompt
                if extent == "in part":
                    offered = [number for number in offered if choices[number].rejects]
                    offered = offered[:_MOST_REJECTING]
                    prompt = _prompt_text(" or ".join(keys[number] for number in offered), on_enter)
                    await self._show([_TOO_LONG], [rows[number] for number in offered], prompt)
                return await self._read_choice({keys[number]: number for number in offered}, prompt)
            except Redraw:
                self._screen.write_now("\n\n")

    async def _read_choice(self, keys: dict[str, int], prompt: str) -> int | None:
        """Read until one of ``keys`` is typed; return its number, None for Enter or Ctrl-D."""
        while True:
            answer = await self._ask(prompt)
            if answer is None or not answer.strip():
                return None
            if (chosen := keys.get(answer.strip().lower())) is not None:
                return chosen
            is_habit = answer.strip().lower() in _SHORT_ANSWERS
            await self._show([_NO_ANSWER, _WHY_KEYS] if is_habit else [_NO_ANSWER], [])

    async def _wait_for_room(self) -> bool:
        """Wait until the window has room for a question; return whether it had room at once."""
        had_room = True
        while not self._screen.frame.has_room():
            had_room = False
            self._screen.write_now(f"\n{self._screen.frame.in_rows(_TOO_SMALL)}\n")
            await self._reader.until_changed()
        return had_room

    async def _show(
        self, lines: Iterable[Line], last: Iterable[Line], prompt: str = ""
    ) -> Literal["whole", "in part", "left"]:
        """Show lines page by page; return whether all or a part were shown, or the person left."""
        await self._wait_for_room()
        frame = self._screen.frame
        longest_prompt = _MORE_ROWS.format(MAX_ROWS, MAX_ROWS)
        pages = frame.pages(lines, last, [longest_prompt, prompt])
        shown_rows = 0
        for page in pages.pages:
            if shown_rows and not await self._next_page(_MORE_ROWS.format(shown_rows, pages.rows)):
                return "left"
            self._screen.write_now(frame.drawn(page))
            shown_rows += len(page)
        return "whole" if pages.whole else "in part"

    async def _next_page(self, prompt: str) -> bool:
        """Ask whether to show the next page; return False if the person leaves."""
        while True:
            answer = await self._ask(prompt)
            if answer == "":
                return True
            if answer is None or answer.strip().lower() == "q":
                return False
            self._screen.write_now(self._screen.frame.drawn([_NO_ANSWER.prefix + _NO_ANSWER.text]))

    async def _ask(self, prompt: str) -> str | None:
        """Show a prompt and read a line; None for Ctrl-D. Raises Redraw."""
        if not await self._wait_for_room():
            raise Redraw
        self._reader.discard_typed()
        self._screen.write_now(self._screen.frame.prompt(prompt))
        answer = await self._reader.read_line()
        if answer is None:  # Ctrl-D does not end the row
            self._screen.write_now("\n")
        return answer

    def _overview(self, form: Form) -> Iterator[Line]:
        """Yield a form's message, and each field that the person can fill in."""
        schema = form.requested_schema
        yield Line(f"{self.agent} asks:")
        yield from quote_text(form.message)
        if schema.description:
            yield from quote_text(schema.description)
        for name, field in schema.properties.items():
            if not isinstance(field, types.UnknownVariant):
                yield Line(heading(name, field, schema), "  ", "bold")
                yield from (Line(title, "      - ") for title in titles_of(field))

    async def _ask_field(
        self, name: str, field: types.ElicitationPropertySchema, schema: types.ElicitationSchema
    ) -> types.ElicitationContentValue:
        """Ask for a value that fits the field. Raises FieldSkipped, FormLeft."""
        if isinstance(field, types.UnknownVariant):
            raise FieldSkipped
        while True:
            try:
                title = Line(heading(name, field, schema), "  ", "bold")
                listed = (Line(f"{n}) {t}", "    ") for n, t in enumerate(titles_of(field), 1))
                if await self._show([title], listed) != "whole":
                    raise FormLeft
                return await self._read_value(field, name in (schema.required or ()))
            except Redraw:
                self._screen.write_now("\n\n")

    async def _read_value(
        self, field: types.ElicitationPropertySchema, required: bool
    ) -> types.ElicitationContentValue:
        """Read lines until one fits the field. Raises FieldSkipped, FormLeft."""
        assert not isinstance(field, types.UnknownVariant)
        while True:
            line = await self._ask(f"  {hint(field)}: ")
            if line is None:
                raise FormLeft
            text = line.strip()
            if not text:
                if field.default is not None:
                    return field.default
                if not required:
                    raise FieldSkipped
            value = value_of(field, text)
            problem = misfit(as_json(field), value)
            if problem is None and text:
                return value
            await self._show([Line(f"It {problem or 'is required'}.", "  ", "yellow")], [])


def _prompt_text(keys: str, on_enter: str) -> str:
    return f"Type {keys} to choose; {on_enter}: " if keys else f"{on_enter}: "


def _words_of(option: types.PermissionOption) -> str:
    """Return the agent's name of an option, and its kind unless the name begins with the kind."""
    kind = KIND_WORDS[option.kind]
    return option.name if option.name.casefold().startswith(kind) else f"{option.name} ({kind})"


def _sum_up(
    schema: types.ElicitationSchema, content: dict[str, types.ElicitationContentValue]
) -> Iterator[Line]:
    yield Line("All is filled in.")
    for name, value in content.items():
        title = title_of(name, schema.properties[name])
        yield from (Line(f"{title}: {text}", "  ") for text in shown_value(schema, name, value))


# PURE: how a field of a form is asked, and the value of a typed line.


def heading(
    name: str, field: types.ElicitationPropertySchema, schema: types.ElicitationSchema
) -> str:
    """Return a field's title, default and description, and whether the field may be left out."""
    assert not isinstance(field, types.UnknownVariant)
    more = f": {field.description}" if field.description else ""
    needed = "" if name in (schema.required or ()) else " (may be left out)"
    default = ""
    if field.default is not None:
        default = f" [{', '.join(shown_value(schema, name, field.default))}]"
    return f"{title_of(name, field)}{needed}{default}{more}"


def title_of(name: str, field: types.ElicitationPropertySchema) -> str:
    assert not isinstance(field, types.UnknownVariant)
    return field.title or name


def titles_of(field: types.ElicitationPropertySchema) -> list[str]:
    """Return the titles of a field's choices; empty without choices."""
    return [title for _, title in choices_of(as_json(field))]


def hint(field: types.ElicitationPropertySchema) -> str:
    """Return what the person can type for a field."""
    if isinstance(field, types.BooleanElicitationPropertySchema):
        return "y or n"
    if isinstance(field, types.ArrayElicitationPropertySchema):
        return "numbers, with commas"
    if titles_of(field):
        return "a number"
    return "answer"


def value_of(field: types.ElicitationPropertySchema, text: str) -> types.ElicitationContentValue:
    """Convert a typed text to the field's type; return the text itself if it does not fit."""
    values = tuple(value for value, _ in choices_of(as_json(field)))
    if isinstance(field, types.BooleanElicitationPropertySchema):
        return {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
    if isinstance(field, types.ArrayElicitationPropertySchema):
        return [_value_at(part, values) for part in text.split(",") if part.strip()]
    try:
        if isinstance(field, types.IntegerElicitationPropertySchema):
            return int(text)
        if isinstance(field, types.NumberElicitationPropertySchema):
            return float(text)
    except ValueError:
        return text
    return _value_at(text, values) if values else text


def shown_value(
    schema: types.ElicitationSchema, name: str, value: types.ElicitationContentValue
) -> list[str]:
    """Return a value as a person reads it, in one or more lines."""
    titles = dict(choices_of(as_json(schema.properties[name])))
    if isinstance(value, list):
        return [titles.get(each, each) for each in value] or ["nothing"]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [titles.get(value, value) if isinstance(value, str) else str(value)]


def _value_at(text: str, values: tuple[str, ...]) -> str:
    """Return the value with the typed number, or else the text, which does not fit."""
    number = text.strip()
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(values):
        return values[int(number) - 1]
    return number
