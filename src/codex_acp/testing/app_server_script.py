"""A scripted Codex app-server without any IO: messages in, outputs out.

Owns what a script means and the record of what the client said. Knows nothing of streams,
processes or time: a pause is an output like any other, and the shell around it does it
(``app_server`` as a process, ``app_server_link`` in memory).

**References.** A string ``${name:path}`` in what is sent is replaced by a value seen before,
with its JSON type if it is the whole string. ``name`` is the method of a client's request or
notification (the value is its newest params) or the name of a server request (the value is
the newest answer to it). ``path`` is dotted and may be empty. ``${turn:id}`` and
``${turn:threadId}`` are of the newest turn. Example: ``"${turn/start:input.0.text}"``.

**Order.** Entries are played in order. A request that a later entry expects waits for it. A
request that no entry expects gets the default answer, if the script has ``defaults`` (and
``initialize`` always), else an error, and is listed in ``unexpected``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from codex_acp.errors import MisuseError
from codex_acp.testing.app_server_entries import Entry, entry_from_json, entry_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike


@dataclass(frozen=True, slots=True, init=False)
class AppServerScript:
    """Entries and how the server behaves around them.

    ``defaults`` answers the usual requests that no entry expects; ``ignore_eof`` and
    ``ignore_sigterm`` make a process that does not end when it should, for tests of shutdown.
    """

    entries: tuple[Entry, ...]
    defaults: bool
    ignore_eof: bool
    ignore_sigterm: bool

    def __init__(
        self,
        *entries: Entry,
        defaults: bool = False,
        ignore_eof: bool = False,
        ignore_sigterm: bool = False,
    ) -> None:
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "defaults", defaults)
        object.__setattr__(self, "ignore_eof", ignore_eof)
        object.__setattr__(self, "ignore_sigterm", ignore_sigterm)

    @classmethod
    def from_jsonl(cls, text: str) -> AppServerScript:
        """Read a script: one entry a line; blank lines and ``#`` comments do not count.

        A line ``{"options": {"defaults": true}}`` sets options. Raises MisuseError that names
        the line at fault.
        """
        entries: list[Entry] = []
        options: dict[str, bool] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            try:
                raw = json.loads(line)
            except ValueError as error:
                raise MisuseError(f"line {number} is not JSON: {error}") from error
            if isinstance(raw, dict) and "options" in raw:
                options.update(_options(raw["options"], number))
            else:
                entries.append(entry_from_json(raw, f"line {number}"))
        return cls(*entries, **options)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> AppServerScript:
        """Read a script from a JSONL file."""
        from pathlib import Path

        return cls.from_jsonl(Path(path).read_text(encoding="utf-8"))

    def to_jsonl(self) -> str:
        """The script as text that :meth:`from_jsonl` reads back as equal."""
        options = {name: True for name in _OPTIONS if getattr(self, name)}
        head: list[dict[str, object]] = [{"options": options}] if options else []
        lines = [*head, *(entry_to_json(entry) for entry in self.entries)]
        return "".join(f"{json.dumps(line)}\n" for line in lines)


_OPTIONS = ("defaults", "ignore_eof", "ignore_sigterm")


def _options(raw: object, number: int) -> dict[str, bool]:
    if not isinstance(raw, dict) or not all(
        name in _OPTIONS and isinstance(value, bool) for name, value in raw.items()
    ):
        raise MisuseError(f"line {number}: options are the booleans {', '.join(_OPTIONS)}")
    return raw


AppServerScriptLike: TypeAlias = "AppServerScript | Iterable[Entry]"
"""A script, or simply its entries."""


def as_app_server_script(script: AppServerScriptLike) -> AppServerScript:
    """The script that ``script`` stands for."""
    return script if isinstance(script, AppServerScript) else AppServerScript(*script)
