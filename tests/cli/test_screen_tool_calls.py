"""What a person sees of a tool call: before permitting it all of it, each thing once."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.acp.types import (
    ContentToolCallContent,
    DiffToolCallContent,
    TerminalToolCallContent,
    TextContentBlock,
    ToolCallContent,
    ToolCallLocation,
)
from codex_acp.cli.tool_calls import (
    changed_files,
    count_changes,
    describe_call,
    describe_outcome,
    diff_lines,
    title_of,
)
from codex_acp.runtime import ToolCall


def text(words: str) -> ToolCallContent:
    return ContentToolCallContent(content=TextContentBlock(text=words))


def rows(call: ToolCall, *, verbose: bool = False) -> list[str]:
    return [line.prefix + line.text for line in describe_call(call, verbose=verbose)]


CODEX = ToolCall(
    "t",
    title="Run: `/bin/bash -lc 'touch made\nls'` (asked by sub-agent `fox`)",
    kind="execute",
    content=(
        text("```sh\n/bin/bash -lc 'touch made\nls'\n```"),
        text("In `/work`"),
        text("Reason given:\n```\n> May I?\n```"),
    ),
    raw_input={
        "command": "/bin/bash -lc 'touch made\nls'",
        "cwd": "/work",
        "reason": "May I?",
        "kind": "command",
        "commandActions": [{"type": "unknown", "command": "touch made\nls"}],
        "timeout": 5,
    },
)
"""As the adapter sends it, and something that only the input says."""


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("`date`", "date"),
        ("`` echo `date` ``", "echo `date`"),
        ("Delete `notes.txt`", "Delete `notes.txt`"),
        ("`a.txt` to `b.txt`", "`a.txt` to `b.txt`"),
        ("Run: `/bin/bash -lc 'ls'`", "ls"),
        ("`", "`"),
    ],
)
def test_a_title_loses_the_backticks_around_it_alone(title: str, shown: str) -> None:
    assert title_of(ToolCall("t", title=title)) == shown


def test_the_command_stands_first_and_once_and_nothing_is_left_out() -> None:
    assert rows(CODEX) == [
        "  $ touch made",
        "  > ls",
        "  (asked by sub-agent `fox`)",
        "  | In `/work`",
        "  | Reason given:",
        "  | > May I?",
        "  | timeout: 5",
    ]


@pytest.mark.parametrize(("title", "shown"), [("List files", ["ls -1", "a"]), ("ls -1", ["a"])])
def test_a_terminal_is_shown_by_its_command_unless_the_title_is_that(
    title: str, shown: list[str]
) -> None:
    content = (TerminalToolCallContent(terminal_id="t"), text("a"))
    raw = {"command": "/bin/bash -lc 'ls -1'"}
    call = ToolCall("t", title=title, kind="execute", content=content, raw_input=raw)
    assert [line.text for line in describe_outcome(call)] == shown
    assert rows(call)[:1] == ["  $ ls -1"]
    assert not any("terminal" in row for row in rows(call))


def test_raw_json_is_for_those_who_ask_for_it() -> None:
    assert '"commandActions": [' in rows(CODEX, verbose=True)[-1]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("/bin/bash -lc 'a b'", "a b"),
        ("bash -c a", "a"),
        (["/bin/sh", "-c", "x; y"], "x; y"),
        (["rm", "-rf", "a b"], "rm -rf 'a b'"),
        ("/tmp/bash -lc ls", "/tmp/bash -lc ls"),
        ("bash -lc a b", "bash -lc a b"),
        ("bash -lc 'a", "bash -lc 'a"),
        ("bash -lc a; touch PWNED", "bash -lc a; touch PWNED"),
        ("ENV=1 bash -lc ls", "ENV=1 bash -lc ls"),
    ],
)
def test_only_what_the_systems_shell_is_given_is_taken_out_of_it(command: Any, shown: str) -> None:
    call = ToolCall("t", title="x", kind="execute", raw_input={"command": command})
    assert rows(call) == [f"  $ {shown}", "  x"]


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "title",
    ["ls", "Run: `ls`", "rm -rf ls /", "ls; rm", "Run: `ls`; rm", "echo `ls` (rm)", "x" * 900],
)
def test_a_title_that_says_more_than_the_command_is_shown(title: str) -> None:
    call = ToolCall("t", title=title, kind="execute", raw_input={"command": "ls"})
    assert rows(call) == ["  $ ls", *([f"  {title}"] if title not in ("ls", "Run: `ls`") else [])]


@pytest.mark.attack("model")
def test_empty_lines_push_nothing_from_the_screen() -> None:
    call = ToolCall("t", title="x", raw_input={"command": "ls" + "\n" * 60 + "rm -rf /"})
    assert rows(call) == ["  $ ls", "  > [59 empty lines]", "  > rm -rf /", "  x"]


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    ("raw", "more"),
    [
        ({"arguments": {"name": "note"}}, []),
        ({"arguments": {"name": "writ"}}, ["  | arguments.name: writ"]),
        ({"path": "/srv/me"}, ["  | path: /srv/me"]),
        ({"path": "/srv/me/project", "quick": False}, ["  | quick: false"]),
        ({"arguments": {"type": "rm", "kind": True}}, ["  | arguments.type: rm"]),
        (
            {"a": [1, {"b": None, "c": "x\ny"}]},
            ["  | a[0]: 1", "  | a[1].c:", "  |   x", "  |   y"],
        ),
        (["--force"], ["  | [0]: --force"]),
        ("rm -rf /", ["  | : rm -rf /"]),
    ],
)
def test_what_only_the_input_says_is_shown_by_its_name(raw: Any, more: list[str]) -> None:
    content = (text('```json\n{\n  "name": "note",\n  "kind": true\n}\n```'),)
    call = ToolCall("t", title="notes: `write` /srv/me/project", content=content, raw_input=raw)
    assert rows(call)[0] == "  notes: `write` /srv/me/project"
    assert rows(call)[5:] == more


@pytest.mark.attack("agent")
def test_a_fence_hides_nothing() -> None:
    hidden = "```touch PWNED\n```sh\nls\n````\n```` x\n```\n"
    assert rows(ToolCall("t", title="x", content=(text(hidden),)))[1:] == [
        "  | ```touch PWNED", "  | ls", "  | ````", "  | ```` x",
    ]  # fmt: skip


def test_an_input_of_very_many_values_is_shown_as_json() -> None:
    call = ToolCall("t", title="x", raw_input=list(range(600)))
    assert len(rows(call)) == 2
    assert rows(call)[1].endswith("598, 599]")


def test_changes_are_shown_by_their_diff_and_the_rest_of_an_input_only_where_it_is_no_change() -> (
    None
):
    diff = DiffToolCallContent(path="/w/a", old_text="one\ntwo\n", new_text="one\n2\n")
    call = ToolCall(
        "t",
        title="Change `/w/a`",
        kind="edit",
        content=(diff,),
        locations=(ToolCallLocation(path="/w/a"), ToolCallLocation(path="/w/b")),
        raw_input={"path": "/w/a", "old": "two", "dry": True},
    )
    change = ["  change of /w/a:", "  | @@ line 1 @@", "  |  one", "  | -two", "  | +2"]
    assert rows(call) == ["  Change `/w/a`", "  file: /w/b", *change]
    execute = ToolCall("t", title="x", kind="execute", content=(diff,), raw_input={"command": "rm"})
    assert rows(execute)[0] == "  $ rm"


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (None, "a\nb\n", ["+a", "+b"]),
        (None, "", []),
        ("a\n", "", ["@@ line 1 @@", "-a"]),
        ("a\n", "a", ["@@ line 1 @@", " a", "-"]),
        ("a", "a\nb", ["@@ line 1 @@", " a", "+b"]),
        ("a\r\n", "a\n", ["@@ line 1 @@", "-a\r", "+a"]),
        ("a\n" * 9 + "x\n", "a\n" * 9 + "y\n", ["@@ line 7 @@", " a", " a", " a", "-x", "+y"]),
    ],
)
def test_the_lines_of_a_change(old: str | None, new: str, lines: list[str]) -> None:
    assert [line for line, _ in diff_lines(old, new)] == lines


def test_a_large_change_is_not_compared_in_depth() -> None:
    old, new = "a\nb\n" * 50_000, "b\na\n" * 50_000
    assert count_changes(old, new) == (100_000, 100_000)


def test_several_changes_of_a_file_are_one_in_the_summary() -> None:
    def edit(path: str, old: str | None, new: str, status: Any = "completed") -> ToolCall:
        content = (DiffToolCallContent(path=path, old_text=old, new_text=new),)
        return ToolCall(path + new, status=status, content=content)

    calls = [
        edit("a", "1\n", "2\n"),
        edit("b", None, "x\n"),
        edit("a", "2\n", "2\n3\n"),
        edit("c", "gone\n", ""),
        edit("d", "1\n", "2\n", "failed"),
    ]
    expected = [("a", 2, 1, ""), ("b", 1, 0, "new"), ("c", 0, 1, "deleted")]
    assert list(changed_files(calls)) == expected


@pytest.mark.attack("agent")
@pytest.mark.parametrize(("key", "times"), [("command", 1), ("other", 2)])
def test_what_is_huge_takes_no_pains_to_be_found_elsewhere(key: str, times: int) -> None:
    words = "a /b c" * 1_000_000
    call = ToolCall("t", title="x", content=(text(words),), raw_input={key: words, "b": "abcd"})
    shown = "\n".join(rows(call))
    assert shown.count(words) == times
    assert "  | b: abcd" in shown
    assert max(len(line.text) for line in describe_outcome(call)) < 2_000


def test_an_outcome_is_cut_in_the_middle_unless_all_of_it_is_wanted() -> None:
    content = (text("```\n" + "\n".join(map(str, range(100))) + "\n```"), text("Exit code: 0"))
    call = ToolCall("t", status="completed", content=content)
    assert [line.text for line in describe_outcome(call)] == [
        "0", "1", "2", "3", "... 88 more lines", *map(str, range(92, 100)),
    ]  # fmt: skip
    assert len(list(describe_outcome(call, verbose=True))) == 100


@pytest.mark.parametrize(("where", "is_shown"), [("local", False), ("production", True)])
def test_another_machine_is_shown_even_where_only_the_input_names_it(
    where: str, is_shown: bool
) -> None:
    call = ToolCall("t", title="Run: ls", raw_input={"command": "ls", "environmentId": where})
    shown = any("environmentId" in row for row in rows(call))
    assert shown == is_shown
