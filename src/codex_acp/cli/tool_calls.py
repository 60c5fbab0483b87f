"""PURE: a tool call for a person's eyes: before it is permitted all of it, afterwards what it did.

Before: the command first and once, then whatever else the agent said of it and of its input, each
once. After: its output, or its changes, cut in the middle. Nothing is made visible here: that is
done where it is drawn. Must not know where.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.acp.types import DiffToolCallContent
from codex_acp.cli.terminal import Line
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codex_acp.cli.terminal import Style
    from codex_acp.runtime import ToolCall

ASKED: Final = {
    "read": "read files",
    "edit": "change files",
    "delete": "delete files",
    "move": "move files",
    "search": "search",
    "execute": "run a command",
    "fetch": "use the network",
    "switch_mode": "switch its mode",
}
"""Words for the permission, by the tool call's kind."""
THEIRS: Final = "  | "
"""Before each row of what the agent, a model or a server wrote."""
GIVEN: Final = THEIRS + "  "
"""Before each row of a value of several lines, so that none looks like another value."""
WRAPPED: Final = "  . "
"""Before a row of a command that only goes on: its own lines begin with ``$`` and ``>``."""
TITLE_LIMIT: Final = 500
ROWS_OF_OUTPUT: Final = (4, 8)
"""Lines of an output that are shown, unless all of it is wanted: its first and its last."""
ROWS_OF_DIFF: Final = 40
LINE_LIMIT: Final = 1_000
"""Characters of one of these lines."""
MAX_LEAVES: Final = 500
"""Values of a tool call's input that are shown one by one; of more the JSON is shown."""
LEAST_KNOWN: Final = 4
"""Characters from which on a text that stands elsewhere is the same text, and no accident."""
MOST_EMPTY: Final = 2
"""Empty lines of a command, one behind the other, that are shown as such."""
SHOWN_BY_DIFF: Final = ("edit", "delete", "move")
"""Kinds of tool calls whose input is the changes that are shown."""
MOST_KNOWN: Final = 100_000
"""And to which it is looked for: a longer one is too long to be allowed, wherever it stands."""
NOT_ASKED_ABOUT: Final = {
    "commandActions", "environmentId", "kind", "parsed_cmd", "proposedExecpolicyAmendment",
    "source", "type",
}  # fmt: skip
"""Members that agents give of a shown command, beside the command itself."""
_SHELL: Final = re.compile(r"(?:(?:/usr)?/bin/)?(?:ba|da|z)?sh -l?c ", re.ASCII)
"""How a command begins that is a script for the system's shell."""
_SCRIPT_LIMIT: Final = 64 * 1024
"""Characters; `shlex` takes a second and a half for a megabyte."""
_BEFORE: Final = ("", "`", "Run: `", "Run: ")
"""Words that agents write before a command in a title."""
_GOES_ON_BEFORE: Final = re.compile(r"[\w/.~-]").match
_GOES_ON_AFTER: Final = re.compile(r"[\w/~-]|\.\w").match
"""Signs that make a text a part of a longer word or path."""
_ALIKE: Final = 200
"""Characters by which a title that was cut is known to be the command."""
_FENCE: Final = re.compile(r"(`{3,})[a-z]{0,12}")


def asked_to(call: ToolCall) -> str:
    """Return our words for the permission that is asked for."""
    return ASKED.get(call.kind or "", "")


def title_of(call: ToolCall) -> str:
    """Return its title for a line; not yet visible."""
    title = call.title or call.tool_call_id
    if title.startswith("Run: `") and title.endswith("`"):
        title = _script_of(_uncoded(title.removeprefix("Run: ")))
    return shortened(_uncoded(title), TITLE_LIMIT)


def _uncoded(text: str) -> str:
    """Return a text without the backticks around it, if all of it is one piece of code."""
    fence = text[: len(text) - len(text.lstrip("`"))]
    inner = text[len(fence) : len(text) - len(fence)]
    one = inner and fence and text.endswith(fence) and fence not in inner
    return inner.strip(" ") if one else text


def quoted(text: str) -> Iterator[Line]:
    """Yield somebody's words, line by line."""
    return (Line(line, THEIRS) for line in _unfenced(text))


def described(call: ToolCall, *, verbose: bool = False) -> Iterator[Line]:
    """Yield all that a person has to see of a tool call before permitting it."""
    raw, (named, command) = call.raw_input, _command_of(call)
    said = [call.title or ""]
    if command is not None:
        yield from _script(_script_of(command))
        said += [command, _script_of(command)]
    title = call.title or call.tool_call_id
    beside = title if command is None else _beside(title, command)
    if beside:
        yield Line(beside, "  ", "bold" if command is None else "")
    diffs = [content for content in call.content if isinstance(content, types.DiffToolCallContent)]
    shown_paths = (title, *(diff.path for diff in diffs))
    for location in call.locations:
        if not any(location.path in shown for shown in shown_paths):
            yield Line(location.path, "  file: ")
    for content in call.content:
        if isinstance(content, types.DiffToolCallContent):
            yield from _diff(content)
            continue
        if isinstance(content, types.TerminalToolCallContent):
            continue  # its command is the one that is asked about
        text = _text_of(content)
        said.append(text)
        lines = list(_unfenced(text))
        if command is None or "\n".join(lines).strip() not in (command, visible(command)):
            yield from (Line(line, THEIRS) for line in lines)
    if raw is not None and not (diffs and call.kind in SHOWN_BY_DIFF):
        known = () if command is None else (*NOT_ASKED_ABOUT, named)
        yield from _input(raw, "\n".join(said), known)
    if verbose and raw is not None:
        yield Line(json.dumps(raw, ensure_ascii=False, default=str), "  input: ")


def outcome(call: ToolCall, *, verbose: bool = False) -> Iterator[Line]:
    """Yield its outcome, in few lines unless ``verbose``."""
    for content in call.content:
        if isinstance(content, types.DiffToolCallContent):
            added, removed = counted(content.old_text, content.new_text)
            yield Line(f"{content.path} +{added} -{removed}", "  ")
            lines = diff_lines(content.old_text, content.new_text)
            for number, (line, style) in enumerate(lines):
                if number == ROWS_OF_DIFF and not verbose:
                    yield Line("... and more", "  ", "dim")
                    break
                yield Line(line if verbose else shortened(line, LINE_LIMIT), "  ", style)
        else:
            is_terminal = isinstance(content, types.TerminalToolCallContent)
            text = _beside_title(call) if is_terminal else _text_of(content)
            if (
                text != f"Exit code: {exit_code_of(call)}"
            ):  # which stands in the title, if it failed
                limit = len(text) if verbose else LINE_LIMIT
                output = [line for line in _unfenced(text) if line]
                for line in output if verbose else _cut(output, *ROWS_OF_OUTPUT):
                    yield Line(shortened(line, limit), "  ", "dim")


def exit_code_of(call: ToolCall) -> int | None:
    """Return the exit code of a command that has ended; negative where Codex ended it."""
    raw = call.raw_output
    code = raw.get("exitCode", raw.get("exit_code")) if isinstance(raw, dict) else None
    if isinstance(code, int):
        return code
    return 0 if call.status == "completed" else None


def _script(script: str) -> Iterator[Line]:
    """Yield a script line by line; many empty ones, which would push the rest away, are counted."""
    prefix = "  $ "
    for is_empty, lines in groupby(script.split("\n"), lambda line: not line.strip()):
        found = list(lines)
        if is_empty and len(found) > MOST_EMPTY:
            yield Line("", f"  > [{len(found)} empty lines]")
            continue
        for line in found:
            yield Line(line, prefix, "bold", WRAPPED)
            prefix = "  > "


def _cut(lines: list[str], first: int, last: int) -> list[str]:
    """Return the first and the last lines; what is left out is counted."""
    left_out = len(lines) - first - last
    if left_out <= 1:
        return lines
    return [*lines[:first], f"... {left_out} more lines", *lines[len(lines) - last :]]


def _diff(content: types.DiffToolCallContent) -> Iterator[Line]:
    what = "new file" if content.old_text is None else "change of"
    yield Line(f"{what} {content.path}:", "  ")
    for text, style in diff_lines(content.old_text, content.new_text):
        yield Line(text, THEIRS, style)


def _command_of(call: ToolCall) -> tuple[str, str | None]:
    """Return the name under which the input has a command, and the command."""
    raw = call.raw_input if isinstance(call.raw_input, dict) else {}
    for name in ("command", "cmd"):
        found = raw.get(name)
        if isinstance(found, list) and found and all(isinstance(word, str) for word in found):
            return name, shlex.join(found)
        if isinstance(found, str) and found.strip():
            return name, found
    return "", None


def _script_of(command: str) -> str:
    """Return the script that a shell is given to run; any other command as it is."""
    shell = _SHELL.match(command)
    if shell is None or len(command) > _SCRIPT_LIMIT:
        return command
    try:
        words = shlex.split(command[shell.end() :])
    except ValueError:
        return command
    return words[0] if len(words) == 1 else command


def _beside(title: str, command: str) -> str:
    """Return the words of a title besides its command; none if that is no more than a verb."""
    for shown in (command, visible(command), _script_of(command)):
        before, found, after = title.partition(shown)
        if found and before in _BEFORE and (after.strip("`") == "" or after.startswith("` (")):
            return after.strip(" `")
    head = title.removeprefix("Run: ").lstrip("`")
    is_cut = len(command) > len(title) / 2 and head.startswith(visible(command[:_ALIKE]))
    return title.rpartition("`")[2].strip() if is_cut else title


def _beside_title(call: ToolCall) -> str:
    """Return the command of a terminal, unless the title is just that."""
    script = _script_of(_command_of(call)[1] or "")
    return "" if script in title_of(call) else script


def _text_of(content: types.ToolCallContent) -> str:
    if not isinstance(content, types.ContentToolCallContent):
        return f"content of type {content.type}"
    block = content.content
    if isinstance(block, types.TextContentBlock):
        return block.text
    if isinstance(block, types.ResourceLinkContentBlock):
        return f"{block.name}: {block.uri}"
    if isinstance(block, types.ResourceContentBlock):
        return f"{block.resource.uri}:\n{getattr(block.resource, 'text', '')}"
    return f"content of type {block.type}"


def _unfenced(text: str) -> Iterator[str]:
    """Yield the lines of Markdown without the fences of its code."""
    fence = ""
    for line in text.removesuffix("\n").split("\n"):
        opens = None if fence else _FENCE.fullmatch(line)
        if opens is not None:
            fence = opens[1]
        elif fence and line == fence:
            fence = ""
        else:
            yield line


def _input(raw: object, said: str, known: tuple[str, ...]) -> Iterator[Line]:
    """Yield the values of the input that nothing else has said, by their names."""
    leaves = []
    for count, (path, value) in enumerate(_leaves(raw, "")):
        if count == MAX_LEAVES:
            yield Line(json.dumps(raw, ensure_ascii=False, default=str), "  input: ")
            return
        top = path.partition(".")[0].partition("[")[0]
        if top not in known and not _is_said(path, value, said):
            leaves.append((path, value))
    for path, value in leaves:
        words = value if isinstance(value, str) else json.dumps(value, default=str)
        first, *more = words.split("\n")
        yield Line(f"{path}:" if more else f"{path}: {first}", THEIRS)
        if more:
            yield from (Line(line, GIVEN) for line in (first, *more))


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, member in enumerate(value):
            yield from _leaves(member, f"{path}[{number}]")
    elif value is not None:
        yield path, value


def _is_said(path: str, value: object, said: str) -> bool:
    key = json.dumps(path.rpartition(".")[2], ensure_ascii=False)
    as_json = json.dumps(value, ensure_ascii=False, default=str)
    if f"{key}: {as_json}" in said:
        return True
    if not isinstance(value, str) or not LEAST_KNOWN <= len(value) <= MOST_KNOWN:
        return False
    forms = (value, as_json[1:-1], visible(value, multiline=True), visible(as_json[1:-1]))
    return any(_stands_in(said, form) for form in forms)


def _stands_in(said: str, form: str) -> bool:
    """Return whether ``form`` stands there whole, and not as the beginning of a longer path."""
    at = said.find(form)
    while at >= 0:
        end = at + len(form)
        if not _GOES_ON_BEFORE(said[at - 1 : at]) and not _GOES_ON_AFTER(said[end : end + 2]):
            return True
        at = said.find(form, end)
    return False


# PURE: what changed in files: the lines of a change, and the sum of all changes of a prompt.

CONTEXT: Final = 3
COMPARED: Final = 400
"""Lines that differ, up to which they are compared in depth: that takes their square."""


def diff_lines(old: str | None, new: str) -> Iterator[tuple[str, Style]]:
    """Yield the lines that were removed and added, with some around them."""
    before, after = _lines(old or "", new)
    start, end = _common(before, after)
    if len(before) + len(after) - 2 * (start + end) > COMPARED:
        yield f"@@ from line {start + 1} @@", "cyan"
        yield from ((f"-{line}", "red") for line in before[start : len(before) - end])
        yield from ((f"+{line}", "green") for line in after[start : len(after) - end])
        return
    # What is alike at both ends is left out of the comparison, but for what is shown of it.
    skip, rest = max(0, start - CONTEXT), max(0, end - CONTEXT)
    before, after = before[skip : len(before) - rest], after[skip : len(after) - rest]
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if old is not None:
            yield f"@@ line {skip + group[0][1] + 1} @@", "cyan"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from ((f" {line}", "dim") for line in before[i1:i2])
            else:
                yield from ((f"-{line}", "red") for line in before[i1:i2])
                yield from ((f"+{line}", "green") for line in after[j1:j2])


def counted(old: str | None, new: str) -> tuple[int, int]:
    """Count the lines that were added, and removed."""
    signs = [text[0] for text, _ in diff_lines(old, new)]
    return signs.count("+"), signs.count("-")


def summary(calls: Iterable[ToolCall]) -> Iterator[tuple[str, int, int, str]]:
    """Yield path, lines added and removed, and ``new`` or ``deleted``, of each file, changes summed
    up."""
    files: dict[str, tuple[str | None, str]] = {}
    for call in calls:
        if call.status != "completed":
            continue
        for content in call.content:
            if isinstance(content, DiffToolCallContent):
                first = files.get(content.path, (content.old_text, ""))[0]
                files[content.path] = (first, content.new_text)
    for path, (old, new) in files.items():
        added, removed = counted(old, new)
        yield path, added, removed, "new" if old is None else "" if new else "deleted"


def _lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """Split both texts; a last line counts as ended if no text says otherwise."""
    before, after = (text.split("\n") if text else [] for text in (old, new))
    if all(not lines or lines[-1] == "" for lines in (before, after)):
        before, after = before[:-1], after[:-1]
    return before, after


def _common(before: list[str], after: list[str]) -> tuple[int, int]:
    """Count the lines that are alike at the beginning, and of the rest those at the end."""
    most = min(len(before), len(after))
    start = 0
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    return start, end
