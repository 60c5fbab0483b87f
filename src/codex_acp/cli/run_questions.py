"""The agent's questions on a terminal: permissions, forms and URLs, answered by a line each.

Owns the dialogue. Whatever is not a clear answer rejects. Must not know how a question came.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from codex_acp.acp.form_answers import choices_of, misfit
from codex_acp.acp.types import (
    ArrayElicitationPropertySchema,
    BooleanElicitationPropertySchema,
    IntegerElicitationPropertySchema,
    NumberElicitationPropertySchema,
    UnknownVariant,
)
from codex_acp.cli.run_frame import MAX_ROWS
from codex_acp.cli.run_screen import describe, quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from codex_acp.acp.types import (
        ElicitationContentValue,
        ElicitationPropertySchema,
        PermissionOption,
    )
    from codex_acp.cli.run_screen import TextOutput
    from codex_acp.cli.terminal import LineReader
    from codex_acp.runtime import Form, FormAnswer, Permission, UrlAnswer, UrlRequest

__all__ = ["Questions"]

KEY_LETTERS: Final = "bcdfghjkmnpqrstvwxz"
"""What the random part of a question's keys is made of: no words, and no letter like a digit."""

KEY_LENGTH: Final = 2

_NOT_NOW: Final = "Enter: not now"
_MORE: Final = "{} of {} rows; Enter goes on, anything else rejects: "
_TOO_LONG: Final = "[Too long to be shown whole, so it can only be rejected.]"
_MOST_REJECTING: Final = 5
"""Choices that are offered for what is too long: an agent may have sent any number."""

KIND_WORDS: Final = {
    "allow_once": "allow once",
    "allow_always": "allow always",
    "reject_once": "reject",
    "reject_always": "reject always",
}


REJECTING: Final = ("reject_once", "reject_always")


class Skipped(Exception):
    """The person left a field out."""


class _Choice(NamedTuple):
    """What a question offers to choose."""

    words: str
    rejects: bool


_DECLINE: Final = _Choice("decline", rejects=True)


class Questions:
    """Asks one thing at a time, though the agent may ask several at once.

    While one is open nothing else is written, and all of it has been on the screen before it can
    be answered. What is typed to choose begins with letters that nobody else knows: neither what
    was typed before, nor what a forged question asks for, can be taken for an answer.
    """

    def __init__(self, screen: TextOutput, reader: LineReader, agent: str) -> None:
        self._screen = screen
        self._reader = reader
        self._agent = agent
        self._one_at_a_time = asyncio.Lock()

    async def permission(self, permission: Permission) -> PermissionOption | None:
        """The option that the person chose; None rejects."""
        options = permission.options
        lines = chain([f"{self._agent} asks for permission:"], describe(permission.tool_call))
        choices = [
            _Choice(f"{option.name} ({KIND_WORDS[option.kind]})", option.kind in REJECTING)
            for option in options
        ]
        async with self._open():
            chosen = await self._choose(lines, choices, "Enter rejects")
            if chosen is None:
                self._screen.note("rejected")
        return None if chosen is None else options[chosen]

    async def form(self, form: Form) -> FormAnswer:
        """What the person filled in."""
        schema = form.requested_schema
        lines = [f"{self._agent} asks:", *quoted(form.message)]
        if schema.description:
            lines += quoted(schema.description)
        async with self._open():
            answer = await self._choose(lines, [_Choice("answer it", False), _DECLINE], _NOT_NOW)
            if answer != 0:
                return "cancel" if answer is None else "decline"
            content: dict[str, ElicitationContentValue] = {}
            for name, field in schema.properties.items():
                try:
                    value = await self._field(name, field, name in (schema.required or ()))
                except EOFError:
                    return "cancel"
                except Skipped:
                    continue
                content[name] = value
            sent = await self._choose(["All is filled in."], [_Choice("send it", False)], _NOT_NOW)
        return "cancel" if sent is None else content

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """Whether the person agrees to open it; nothing is opened from here."""
        host = urlsplit(request.url).hostname or "no host"
        lines = [
            f"{self._agent} asks you to open a page of {host}:",
            *quoted(request.message),
            f"  {request.url}",
        ]
        async with self._open():
            answer = await self._choose(lines, [_Choice("open it", False), _DECLINE], _NOT_NOW)
        return "cancel" if answer is None else ("accept", "decline")[answer]

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        async with self._one_at_a_time:
            with self._screen.held():
                self._screen.ask("\n")
                try:
                    yield
                except asyncio.CancelledError:
                    self._screen.ask("\n")
                    self._screen.note("the question was withdrawn")
                    raise

    async def _choose(
        self, lines: Iterable[str], choices: Sequence[_Choice], otherwise: str
    ) -> int | None:
        """Which of ``choices`` the person chose; None if not clearly one, or not all was seen.

        Of what is too long to be seen whole only the choices that reject are offered.
        """
        letters = "".join(secrets.choice(KEY_LETTERS) for _ in range(KEY_LENGTH))
        keys = [f"{letters}{number}" for number in range(1, len(choices) + 1)]
        named = f"one of {keys[0]} to {keys[-1]}" if len(keys) > 1 else "".join(keys)
        prompt = f"Type {named} to choose; {otherwise}: " if keys else f"{otherwise}: "
        rows = [f"  {key}) {choice.words}" for key, choice in zip(keys, choices, strict=True)]
        seen = await self._shown(lines, ["", *rows], prompt)
        if seen == "left":
            return None
        if seen == "in part":
            offered = [number for number, choice in enumerate(choices) if choice.rejects]
            offered = offered[:_MOST_REJECTING]
            await self._shown([_TOO_LONG], [rows[number] for number in offered], prompt)
            keys = [key if number in offered else "" for number, key in enumerate(keys)]
        answer = (await self._ask(prompt) or "").strip().lower()
        return keys.index(answer) if answer and answer in keys else None

    async def _shown(
        self, lines: Iterable[str], last: Iterable[str], prompt: str = ""
    ) -> Literal["whole", "in part", "left"]:
        """How much of it was on the screen: page by page, as far as the person goes on."""
        frame = self._screen.frame
        cut = frame.pages(lines, last, [_MORE.format(MAX_ROWS, MAX_ROWS), prompt])
        seen = 0
        for page in cut.pages:
            if seen and await self._ask(_MORE.format(seen, cut.rows)) != "":
                return "left"
            self._screen.ask(frame.drawn(page))
            seen += len(page)
        return "whole" if cut.whole else "in part"

    async def _ask(self, prompt: str) -> str | None:
        """A line that was typed after what stands above was drawn; None for Ctrl-D."""
        self._reader.drop()
        self._screen.ask(self._screen.frame.prompt(prompt))
        return await self._reader.line()

    async def _field(
        self, name: str, field: ElicitationPropertySchema, required: bool
    ) -> ElicitationContentValue:
        """A value that fits. Raises Skipped, and EOFError for Ctrl-D or a page not wanted."""
        if isinstance(field, UnknownVariant):
            raise Skipped
        choices = choices_of(field)
        listed = (f"    {number}) {title}" for number, (_, title) in enumerate(choices, 1))
        if await self._shown([_heading(name, field, required)], listed) != "whole":
            raise EOFError
        while True:
            line = await self._ask(f"  {_hint(field)}: ")
            if line is None:
                raise EOFError
            text = line.strip()
            if not text:
                if field.default is not None:
                    return field.default
                if not required:
                    raise Skipped
            value = _value(field, text, tuple(value for value, _ in choices))
            problem = misfit(field, value)
            if problem is None and text:
                return value
            await self._shown([f"  It {problem or 'is required'}."], [])


def _heading(name: str, field: ElicitationPropertySchema, required: bool) -> str:
    assert not isinstance(field, UnknownVariant)
    more = f": {field.description}" if field.description else ""
    needed = "" if required else " (may be left out)"
    default = f" [{field.default}]" if field.default is not None else ""
    return f"  {field.title or name}{needed}{default}{more}"


def _hint(field: ElicitationPropertySchema) -> str:
    if isinstance(field, BooleanElicitationPropertySchema):
        return "y or n"
    if isinstance(field, ArrayElicitationPropertySchema):
        return "numbers, with commas"
    if choices_of(field):
        return "a number"
    return "answer"


def _value(
    field: ElicitationPropertySchema, text: str, values: tuple[str, ...]
) -> ElicitationContentValue:
    """What was typed, as the field has it; text where it is nothing of the kind."""
    if isinstance(field, BooleanElicitationPropertySchema):
        return {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
    if isinstance(field, ArrayElicitationPropertySchema):
        return [_choice(part, values) for part in text.split(",") if part.strip()]
    try:
        if isinstance(field, IntegerElicitationPropertySchema):
            return int(text)
        if isinstance(field, NumberElicitationPropertySchema):
            return float(text)
    except ValueError:
        return text
    return _choice(text, values) if values else text


def _choice(text: str, values: tuple[str, ...]) -> str:
    """By its number; whatever else was typed is left as it is, to be refused."""
    number = text.strip()
    if number.isascii() and number.isdigit() and 1 <= int(number) <= len(values):
        return values[int(number) - 1]
    return number
