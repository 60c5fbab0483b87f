"""PURE: describe a tool call to a person: the whole call for a permission, and later the outcome.

A call has the command first, then the rest of the title, content and input, each text once. An
outcome has the output or the changes, cut in the middle. Control characters stay in the lines:
`codex_acp.cli.terminal` shows them as codes.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Final

from codex_acp.acp import types
from codex_acp.cli.terminal import Line
from codex_acp.routing.display import shortened, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codex_acp.cli.terminal import Style
    from codex_acp.runtime import ToolCall

ASKED: Final = {
    "read": "read files", "edit": "change files", "delete": "delete files", "move": "move files",
    "search": "search", "execute": "run a command", "fetch": "use the network",
    "switch_mode": "switch its mode",
}  # fmt: skip
"""Purpose of a permission, by the kind of the tool call."""
FOREIGN_PREFIX: Final = "  | "
"""Prefix of each row of text by the agent, a model or a server."""
VALUE_PREFIX: Final = FOREIGN_PREFIX + "  "
"""Prefix of each row of a value of several lines: no row looks like another value."""
CONTINUED_PREFIX: Final = "  . "
"""Prefix of a row that continues a line of a command; a line begins with ``$`` or ``>``."""
TITLE_LIMIT: Final = 500
"""Characters of a title in one line."""
ROWS_OF_OUTPUT: Final = (4, 8)
"""How many first and last lines of an output are shown, unless verbose."""
ROWS_OF_DIFF: Final = 40
"""Lines of a diff that are shown, unless verbose."""
LINE_LIMIT: Final = 1_000
"""Characters of a line of an output or a diff."""
MAX_LEAVES: Final = 500
"""Values of a tool call's input that are shown one by one; an input with more is shown as JSON."""
LEAST_SEARCHED: Final = 4
MOST_SEARCHED: Final = 100_000
"""Characters of the shortest and the longest value that is left out if other texts contain it."""
MOST_EMPTY: Final = 2
"""Empty lines in a row that are shown in a command; more are counted."""
SHOWN_BY_DIFF: Final = ("edit", "delete", "move")
"""Kinds of tool calls whose input repeats the diffs."""
SHOWN_WITH_COMMAND: Final = {
    "commandActions", "kind", "parsed_cmd", "proposedExecpolicyAmendment",
    "source", "type",
}  # fmt: skip
"""Members of the input that repeat or classify the command; the command itself is shown."""
_SHELL: Final = re.compile(r"(?:(?:/usr)?/bin/)?(?:ba|da|z)?sh -l?c ", re.ASCII)
"""Beginning of a command that runs a script in the system's shell."""
_SCRIPT_LIMIT: Final = 64 * 1024
"""Characters of a command that is split: `shlex` takes a second and a half for a megabyte."""
_BEFORE: Final = ("", "`", "Run: `", "Run: ")
"""Words that agents write before a command in a title."""
_GOES_ON_BEFORE: Final = re.compile(r"[\w/.~-]").match
"""Matches a character before a text if the text is only a part of a word or path."""
_GOES_ON_AFTER: Final = re.compile(r"[\w/~-]|\.\w").match
"""Matches the characters after a text if the text is only a part of a word or path."""
_COMPARED_START: Final = 200
"""Characters of a command that the beginning of a cut title is compared with."""
_FENCE: Final = re.compile(r"(`{3,})[a-z]{0,12}")
"""The line before a piece of code, with the language."""


def title_of(call: ToolCall) -> str:
    """Return the call's title for one line, perhaps with control characters."""
    title = call.title or call.tool_call_id
    if title.startswith("Run: `") and title.endswith("`"):
        title = _script_of(_uncoded(title.removeprefix("Run: ")))
    return shortened(_uncoded(title), TITLE_LIMIT)


def _uncoded(text: str) -> str:
    """Return a text without the outer backticks if the whole text is one piece of code."""
    fence = text[: len(text) - len(text.lstrip("`"))]
    inner = text[len(fence) : len(text) - len(fence)]
    is_code = inner and fence and text.endswith(fence) and fence not in inner
    return inner.strip(" ") if is_code else text


def quote_text(text: str) -> Iterator[Line]:
    """Yield an agent's text line by line, with the prefix `FOREIGN_PREFIX`."""
    return (Line(line, FOREIGN_PREFIX) for line in _unfenced(text))


def describe_call(call: ToolCall, *, verbose: bool = False) -> Iterator[Line]:
    """Yield all lines that a person must see of a tool call before permitting it."""
    raw = call.raw_input
    command_key, command = _command_of(call)
    shown_texts = [call.title or ""]
    if command is not None:
        yield from _script_lines(_script_of(command))
        shown_texts += [command, _script_of(command)]
    title = call.title or call.tool_call_id
    words = title if command is None else _without_command(title, command)
    if words:
        yield Line(words, "  ", "bold" if command is None else "")
    diffs = [content for content in call.content if isinstance(content, types.DiffToolCallContent)]
    shown_paths = (title, *(diff.path for diff in diffs))
    for location in call.locations:
        if not any(location.path in shown for shown in shown_paths):
            yield Line(location.path, "  file: ")
    for content in call.content:
        if isinstance(content, types.DiffToolCallContent):
            what = "new file" if content.old_text is None else "change of"
            yield Line(f"{what} {content.path}:", "  ")
            for line, style in diff_lines(content.old_text, content.new_text):
                yield Line(line, FOREIGN_PREFIX, style)
            continue
        if isinstance(content, types.TerminalToolCallContent):
            continue  # the terminal's command is the call's, shown above
        text = _text_of(content)
        shown_texts.append(text)
        lines = list(_unfenced(text))
        if command is None or "\n".join(lines).strip() not in (command, visible(command)):
            yield from (Line(line, FOREIGN_PREFIX) for line in lines)
    if raw is not None and not (diffs and call.kind in SHOWN_BY_DIFF):
        left_out = () if command is None else (*SHOWN_WITH_COMMAND, command_key)
        yield from _input_lines(raw, "\n".join(shown_texts), left_out)
    if verbose and raw is not None:
        yield Line(json.dumps(raw, ensure_ascii=False, default=str), "  input: ")


def describe_outcome(call: ToolCall, *, verbose: bool = False) -> Iterator[Line]:
    """Yield the call's outcome, in few lines unless ``verbose``."""
    for content in call.content:
        if isinstance(content, types.DiffToolCallContent):
            added, removed = count_changes(content.old_text, content.new_text)
            yield Line(f"{content.path} +{added} -{removed}", "  ")
            lines = diff_lines(content.old_text, content.new_text)
            for number, (line, style) in enumerate(lines):
                if number == ROWS_OF_DIFF and not verbose:
                    yield Line("... and more", "  ", "dim")
                    break
                yield Line(line if verbose else shortened(line, LINE_LIMIT), "  ", style)
            continue
        if isinstance(content, types.TerminalToolCallContent):
            text = _script_of(_command_of(call)[1] or "")
            if text in title_of(call):
                continue  # the title shows the command
        else:
            text = _text_of(content)
        if text == f"Exit code: {exit_code_of(call)}":
            continue  # the title shows the exit code of a failed command
        limit = len(text) if verbose else LINE_LIMIT
        output = [line for line in _unfenced(text) if line]
        for line in output if verbose else _first_and_last(output, *ROWS_OF_OUTPUT):
            yield Line(shortened(line, limit), "  ", "dim")


def exit_code_of(call: ToolCall) -> int | None:
    """Return a command's exit code; negative if Codex ended the command, None if unknown."""
    raw = call.raw_output
    code = raw.get("exitCode", raw.get("exit_code")) if isinstance(raw, dict) else None
    if isinstance(code, int):
        return code
    return 0 if call.status == "completed" else None


def _script_lines(script: str) -> Iterator[Line]:
    """Yield a script line by line. Many empty lines, which would hide the rest, are counted."""
    prefix = "  $ "
    for is_empty, group in groupby(script.split("\n"), lambda line: not line.strip()):
        lines = list(group)
        if is_empty and len(lines) > MOST_EMPTY:
            yield Line("", f"  > [{len(lines)} empty lines]")
            continue
        for line in lines:
            yield Line(line, prefix, "bold", CONTINUED_PREFIX)
            prefix = "  > "


def _first_and_last(lines: list[str], first: int, last: int) -> list[str]:
    """Return the first and the last lines; replace the lines between by their count."""
    left_out = len(lines) - first - last
    if left_out <= 1:
        return lines
    return [*lines[:first], f"... {left_out} more lines", *lines[len(lines) - last :]]


def _command_of(call: ToolCall) -> tuple[str, str | None]:
    """Return the input's key for the command, and the command; None if there is no command."""
    raw = call.raw_input if isinstance(call.raw_input, dict) else {}
    for key in ("command", "cmd"):
        value = raw.get(key)
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return key, shlex.join(value)
        if isinstance(value, str) and value.strip():
            return key, value
    return "", None


def _script_of(command: str) -> str:
    """Return the script of a command that runs a shell; any other command unchanged."""
    shell = _SHELL.match(command)
    if shell is None or len(command) > _SCRIPT_LIMIT:
        return command
    try:
        words = shlex.split(command[shell.end() :])
    except ValueError:
        return command
    return words[0] if len(words) == 1 else command


def _without_command(title: str, command: str) -> str:
    """Return the title's words after the command; a title that lacks the command, unchanged."""
    for shown in (command, visible(command), _script_of(command)):
        before, found, after = title.partition(shown)
        # The words are nothing or, for example, "(in /tmp)".
        if found and before in _BEFORE and (after.strip("`") == "" or after.startswith("` (")):
            return after.strip(" `")
    # A title may have only the beginning of a long command.
    head = title.removeprefix("Run: ").lstrip("`")
    is_cut = len(command) > len(title) / 2 and head.startswith(visible(command[:_COMPARED_START]))
    return title.rpartition("`")[2].strip() if is_cut else title


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
    """Yield the lines of Markdown without the fences around code."""
    fence = ""
    for line in text.removesuffix("\n").split("\n"):
        opens = None if fence else _FENCE.fullmatch(line)
        if opens is not None:
            fence = opens[1]
        elif fence and line == fence:
            fence = ""
        else:
            yield line


def _input_lines(raw: object, shown_text: str, left_out: tuple[str, ...]) -> Iterator[Line]:
    """Yield the values of the input, but no member ``left_out`` and no value in ``shown_text``."""
    leaves = []
    for count, (path, value) in enumerate(_leaves(raw, "")):
        if count == MAX_LEAVES:
            yield Line(json.dumps(raw, ensure_ascii=False, default=str), "  input: ")
            return
        top = path.partition(".")[0].partition("[")[0]
        is_here = (path, value) == ("environmentId", "local")  # Codex's name of this machine
        if top not in left_out and not is_here and not _is_shown(path, value, shown_text):
            leaves.append((path, value))
    for path, value in leaves:
        words = value if isinstance(value, str) else json.dumps(value, default=str)
        first, *more = words.split("\n")
        yield Line(f"{path}:" if more else f"{path}: {first}", FOREIGN_PREFIX)
        if more:
            yield from (Line(line, VALUE_PREFIX) for line in (first, *more))


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of each member that is no object and no list."""
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, member in enumerate(value):
            yield from _leaves(member, f"{path}[{number}]")
    elif value is not None:
        yield path, value


def _is_shown(path: str, value: object, shown_text: str) -> bool:
    """Return whether the text has the member as JSON, or its value as a word."""
    key = json.dumps(path.rpartition(".")[2], ensure_ascii=False)
    as_json = json.dumps(value, ensure_ascii=False, default=str)
    if f"{key}: {as_json}" in shown_text:
        return True
    if not isinstance(value, str) or not LEAST_SEARCHED <= len(value) <= MOST_SEARCHED:
        return False
    forms = (value, as_json[1:-1], visible(value, multiline=True), visible(as_json[1:-1]))
    return any(_contains(shown_text, form) for form in forms)


def _contains(text: str, part: str) -> bool:
    """Return whether ``text`` contains ``part`` as a whole word or path."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if not _GOES_ON_BEFORE(text[at - 1 : at]) and not _GOES_ON_AFTER(text[end : end + 2]):
            return True
        at = text.find(part, end)
    return False


# The changes of files: the lines of one diff, and the sum of all changes of a prompt.

CONTEXT: Final = 3
"""Unchanged lines that a diff shows around a change."""
COMPARED: Final = 400
"""Most lines of a change that `difflib` compares, in time that grows with their square."""


def diff_lines(old: str | None, new: str) -> Iterator[tuple[str, Style]]:
    """Yield the lines of a diff, with their styles."""
    before, after = (text.split("\n") if text else [] for text in (old or "", new))
    if all(not lines or lines[-1] == "" for lines in (before, after)):
        # Both texts end with a newline: drop the empty string after the newline.
        before, after = before[:-1], after[:-1]
    head = _count_equal(before, after)
    tail = _count_equal(before[head:][::-1], after[head:][::-1])
    if len(before) + len(after) - 2 * (head + tail) > COMPARED:
        yield f"@@ from line {head + 1} @@", "cyan"
        yield from ((f"-{line}", "red") for line in before[head : len(before) - tail])
        yield from ((f"+{line}", "green") for line in after[head : len(after) - tail])
        return
    # Leave out the equal lines at both ends, except the lines of the context.
    skip, skip_last = max(0, head - CONTEXT), max(0, tail - CONTEXT)
    before, after = before[skip : len(before) - skip_last], after[skip : len(after) - skip_last]
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


def count_changes(old: str | None, new: str) -> tuple[int, int]:
    """Return how many lines were added and removed."""
    signs = [text[0] for text, _ in diff_lines(old, new)]
    return signs.count("+"), signs.count("-")


def changed_files(calls: Iterable[ToolCall]) -> Iterator[tuple[str, int, int, str]]:
    """Yield path, lines added, lines removed and ``new``, ``deleted`` or "" of each file."""
    files: dict[str, tuple[str | None, str]] = {}
    for call in calls:
        if call.status != "completed":
            continue
        for content in call.content:
            if isinstance(content, types.DiffToolCallContent):
                old, _ = files.get(content.path, (content.old_text, ""))
                files[content.path] = (old, content.new_text)
    for path, (old, new) in files.items():
        added, removed = count_changes(old, new)
        change = "new" if old is None else ("" if new else "deleted")
        yield path, added, removed, change


def _count_equal(before: list[str], after: list[str]) -> int:
    """Return the number of equal lines at the beginning of both lists."""
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
