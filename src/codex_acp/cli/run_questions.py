"""The agent's questions on a terminal: permissions, forms and URLs, answered by a line each.

Owns the dialogue. Whatever is not a clear answer rejects. Must not know how a question came.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codex_acp.acp.types import (
    ArrayElicitationPropertySchema,
    BooleanElicitationPropertySchema,
    IntegerElicitationPropertySchema,
    NumberElicitationPropertySchema,
    UnknownVariant,
)
from codex_acp.cli.run_screen import describe
from codex_acp.routing.display import visible
from codex_acp.runtime.forms import choices_of, problem_of

if TYPE_CHECKING:
    from codex_acp.acp.types import (
        ElicitationContentValue,
        ElicitationPropertySchema,
        PermissionOption,
    )
    from codex_acp.cli.run_screen import TextOutput
    from codex_acp.runtime import Form, FormAnswer, Permission, UrlAnswer, UrlRequest

__all__ = ["LineReader", "Questions"]

READ_SIZE: Final = 4096

KIND_WORDS: Final = {
    "allow_once": "allow once",
    "allow_always": "allow always",
    "reject_once": "reject",
    "reject_always": "reject always",
}


class Skipped(Exception):
    """The person left a field out."""


class LineReader:
    """Lines that a person types; without a thread, so that a settled question leaves none."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd

    async def line(self) -> str | None:
        """The next line, without its end; None for the end of input (Ctrl-D)."""
        loop = asyncio.get_running_loop()
        data = b""
        while not data.endswith(b"\n"):
            ready = asyncio.Event()
            loop.add_reader(self._fd, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._fd)
            try:
                more = os.read(self._fd, READ_SIZE)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                return data.decode(errors="replace") or None
            data += more
        return data.decode(errors="replace").rstrip("\r\n")

    def drop(self) -> None:
        """Forget what was typed already: before a question is seen, nothing answers it."""
        import termios

        with suppress(termios.error):
            termios.tcflush(self._fd, termios.TCIFLUSH)


class Questions:
    """Asks one thing at a time, though the agent may ask several at once."""

    def __init__(self, screen: TextOutput, reader: LineReader, agent: str) -> None:
        self._screen = screen
        self._reader = reader
        self._agent = visible(agent)
        self._one_at_a_time = asyncio.Lock()

    async def permission(self, permission: Permission) -> PermissionOption | None:
        """The option that the person chose; None rejects."""
        options = permission.options
        lines = [f"\n{self._agent} asks for permission:", describe(permission.tool_call)]
        for number, option in enumerate(options, 1):
            lines.append(f"  {number}) {visible(option.name)} ({KIND_WORDS[option.kind]})")
        async with self._one_at_a_time:
            lines.append(f"Choose 1 to {len(options)}; Enter rejects: ")
            answer = (await self._ask("\n".join(lines)) or "").strip()
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(options):
            return options[int(answer) - 1]
        self._screen.note("rejected")
        return None

    async def form(self, form: Form) -> FormAnswer:
        """What the person filled in."""
        schema = form.requested_schema
        async with self._one_at_a_time:
            self._screen.ask(f"\n{self._agent} asks:\n{_quoted(form.message)}\n")
            if schema.description:
                self._screen.ask(f"{_quoted(schema.description)}\n")
            first = (await self._ask("Answer it? y: yes, n: no, Enter: not now: ") or "").strip()
            if first.lower() in ("n", "no"):
                return "decline"
            if first.lower() not in ("y", "yes"):
                return "cancel"
            content: dict[str, ElicitationContentValue] = {}
            for name, field in schema.properties.items():
                try:
                    value = await self._field(name, field, name in (schema.required or ()))
                except EOFError:
                    return "cancel"
                except Skipped:
                    continue
                content[name] = value
            last = (await self._ask("Send it? y: yes, Enter: no: ") or "").strip()
        return content if last.lower() in ("y", "yes") else "cancel"

    async def url(self, request: UrlRequest) -> UrlAnswer:
        """Whether the person agrees to open it; nothing is opened from here."""
        host = visible(urlsplit(request.url).hostname or "no host")
        async with self._one_at_a_time:
            text = (
                f"\n{self._agent} asks you to open a page of {host}:\n{_quoted(request.message)}\n"
                f"  {visible(request.url)}\n"
                "Will you open it? y: yes, n: no, Enter: not now: "
            )
            answer = (await self._ask(text) or "").strip().lower()
        if answer in ("y", "yes"):
            return "accept"
        return "decline" if answer in ("n", "no") else "cancel"

    async def _ask(self, text: str) -> str | None:
        self._reader.drop()
        self._screen.ask(text)
        return await self._reader.line()

    async def _field(
        self, name: str, field: ElicitationPropertySchema, required: bool
    ) -> ElicitationContentValue:
        """A value that fits. Raises Skipped, and EOFError for Ctrl-D."""
        if isinstance(field, UnknownVariant):
            raise Skipped
        self._screen.ask(_heading(name, field, required))
        choices = choices_of(field)
        for number, (_, title) in enumerate(choices, 1):
            self._screen.ask(f"    {number}) {visible(title)}\n")
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
            problem = problem_of(field, value)
            if problem is None and text:
                return value
            self._screen.ask(f"  It {problem or 'is required'}.\n")


def _heading(name: str, field: ElicitationPropertySchema, required: bool) -> str:
    assert not isinstance(field, UnknownVariant)
    more = f": {visible(field.description)}" if field.description else ""
    needed = "" if required else " (may be left out)"
    default = f" [{visible(str(field.default))}]" if field.default is not None else ""
    return f"  {visible(field.title or name)}{needed}{default}{more}\n"


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


def _quoted(text: str) -> str:
    return "\n".join(f"  | {line}" for line in visible(text, multiline=True).split("\n"))
