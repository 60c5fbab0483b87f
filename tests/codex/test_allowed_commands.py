"""`allow_commands`: only whole commands that the program named, whatever stands around them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from codex_acp.codex import Allow, Once, allow_commands
from codex_acp.codex._generated.methods import MODELS
from codex_acp.codex._generated.server_requests import ItemCommandExecutionRequestApproval
from codex_acp.codex.approvals.actions import named_paths
from codex_acp.codex.approvals.classify import CommandApproval
from codex_acp.codex.approvals.policies import ApprovalQuestion
from codex_acp.codex.approvals.real_paths import look_at
from codex_acp.errors import MisuseError

NAMED = ["git status", "git diff *", ["npm", "test"], "cat a", "wc -l", "x"]


def question(command: str, actions: Sequence[str] = (), **more: Any) -> ApprovalQuestion:
    params = {
        "threadId": "t", "turnId": "u", "itemId": "i", "startedAtMs": 1, "command": command,
        "commandActions": [{"type": "unknown", "command": action} for action in actions], **more,
    }  # fmt: skip
    decoded: Any = MODELS.decode("CommandExecutionRequestApprovalParams", params, "test")
    approval = CommandApproval(ItemCommandExecutionRequestApproval(0, decoded))
    real = {path: look.real or None for path, look in look_at(named_paths(approval)).items()}
    return ApprovalQuestion(approval, {}, (Once(),), "t", "t", "u", "i", "digest", real)


def in_bash(script: str) -> str:
    return shlex.join(["/bin/bash", "-lc", script])


async def is_allowed(asked: ApprovalQuestion, **options: Any) -> bool:
    decision = await allow_commands(NAMED, **options).decide(asked)
    assert decision in (None, Allow(Once()))
    return decision is not None


@pytest.mark.parametrize(
    "script",
    [
        "git status", "git diff -- 'a b' c", "npm test", "git 'status'", "cat a | wc -l",
        "git status && npm test; cat a", "git diff ';' '&&' '&'",
        "git diff a\" ; \"b'c'\"\" ';'x", "g'i't diff; npm \"te\"st",
    ],
)  # fmt: skip
async def test_a_command_that_is_named_as_a_whole_runs_once(script: str) -> None:
    assert await is_allowed(question(in_bash(script), [script]))


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "script",
    [
        "git status x", "git", "npm test --x", "cat a b", "xcat a", "git diffx", "git  statusx",
        "git status; touch p", "git status&&touch p", "git status & touch p", "git status &",
        "cat a | awk '{system(\"rm b\")}'", "cat a | xargs rm", "cat a > b", "cat a >b", "cat a<b",
        "git status\ntouch p", "git status\rtouch p", "git diff $(touch p)", "git diff `touch p`",
        "git diff $X", "git diff \"$(touch p)\"", "git diff \\\n", "FOO=1 git status",
        "(git status)", "! git status", "git diff <(touch p)", "git status ;; x", "git status |& x",
        "cat a |",
        "git status '", "env git status", "bash -c 'git status'", "./git status", "git\u00a0status",
        "git status '&&' x", "git status ';' x", "", " ", "'' x", "git diff \x00", "x;", "{ x; }",
        "git diff a\" \"b ; t\"o\"uch p", "git diff a' 'b && t'o'uch p",
        "git diff a' 'b & t'o'uch p",
        "git diff a\" \"b > 'c'd'e'", "git diff a\" 'b\" ; touch 'p", "git diff 'a\"' ; touch \"p",
    ],
)  # fmt: skip
async def test_nothing_else_runs_whatever_stands_around_what_was_named(script: str) -> None:
    assert not await is_allowed(question(in_bash(script)))


@pytest.mark.attack("model")
@pytest.mark.parametrize("actions", [(), ("git diff " + "a " * 32_000,) * 3])
async def test_a_command_that_would_hold_the_loop_up_is_not_read(actions: Sequence[str]) -> None:
    long = "git diff " + "a " * (20_000 if actions else 40_000)
    assert not await is_allowed(question(in_bash(long), actions))
    assert await is_allowed(question(in_bash(long[:60_000])))


@pytest.mark.attack("model")
@pytest.mark.parametrize(
    "command",
    [
        "/w/evil/bash -lc 'git status'", "bash -lc 'git status'", "/bin/bash -lc 'git status' p",
        "/bin/bash -ic 'git status'", "/bin/bash p", "'/bin/bash' -lc 'git status", "",
    ],
)  # fmt: skip
async def test_only_shells_of_the_system_are_looked_into(command: str) -> None:
    assert not await is_allowed(question(command))


async def test_a_command_without_a_shell_matches_by_its_words() -> None:
    assert await is_allowed(question("git status"))
    assert not await is_allowed(question("git 'status; touch p'"))


@pytest.mark.parametrize(
    "more",
    [
        {"kind": "stdin"},
        {"networkApprovalContext": {"host": "example.org", "protocol": "https"}},
        {"additionalPermissions": {"fileSystem": {"write": ["/"]}}},
    ],
)
async def test_more_than_a_command_is_no_command(more: dict[str, Any]) -> None:
    assert not await is_allowed(question(in_bash("git status"), **more))


async def test_what_codex_parsed_otherwise_is_not_allowed() -> None:
    assert not await is_allowed(question(in_bash("git status"), ["git status", "touch p"]))
    unknown = [{"type": "later", "command": "git status"}]
    assert not await is_allowed(question(in_bash("git status"), commandActions=unknown))


async def test_within_holds_also_through_a_link(tmp_path: Any) -> None:
    inside, outside = tmp_path / "w" / "sub", tmp_path / "w2"
    inside.mkdir(parents=True)
    outside.mkdir()
    (inside / "out").symlink_to(outside)

    for cwd, allowed in [
        (inside, True),
        (tmp_path / "w", True),
        (outside, False),
        (inside / "out", False),
        (inside / ".." / "..", False),
    ]:
        asked = question(in_bash("npm test"), cwd=str(cwd))
        assert await is_allowed(asked, within=tmp_path / "w") is allowed
    assert not await is_allowed(question(in_bash("npm test")), within=tmp_path)


@pytest.mark.parametrize("commands", ["npm test", [""], ["*"], [[]], ["a; b"], ["a > b"], ["$A"]])
def test_what_names_no_simple_command_is_refused_at_once(commands: Any) -> None:
    with pytest.raises(MisuseError, match="npm test"):
        allow_commands(commands)
