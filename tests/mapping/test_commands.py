"""Slash commands: what is typed, what is offered, and how a user's own prompt is filled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp.codex.types import SkillMetadata
from codex_acp.mapping.commands import (
    BUILT_IN,
    TypedCommand,
    UserPrompt,
    available_commands,
    built_in_name,
    filled_prompt,
    skill_mentions,
    typed_command,
    user_prompt,
)
from codex_acp.wire.codec import decode


def skill(name: str, *, enabled: bool = True, description: str = "Does it.") -> SkillMetadata:
    wire = {"name": name, "description": description, "enabled": enabled, "path": f"/s/{name}"}
    return decode(SkillMetadata, {**wire, "scope": "user"})


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/review", TypedCommand("review", "")),
        ("  /review-branch   main  ", TypedCommand("review-branch", "main")),
        ("/goal make it\nfast", TypedCommand("goal", "make it\nfast")),
        ("/prompts:fix a b", TypedCommand("prompts:fix", "a b")),
        ("/", None),
        ("/ review", None),
        ("please /review", None),
        ("", None),
    ],
)
def test_a_command_is_the_word_behind_a_leading_slash(
    text: str, command: TypedCommand | None
) -> None:
    assert typed_command(text) == command


def test_a_prompt_file_tells_its_description_and_what_may_follow_it() -> None:
    text = '---\ndescription: "Fix one bug"\nargument-hint: BUG\n---\nFix $1 in $ARGUMENTS.\n'

    assert user_prompt("fix", text) == UserPrompt(
        "fix", "Fix one bug", "BUG", "Fix $1 in $ARGUMENTS.\n"
    )


def test_a_prompt_file_without_front_matter_is_all_prompt() -> None:
    assert user_prompt("hi", "Say $1.") == UserPrompt(
        "hi", "Your prompt hi", "arguments", "Say $1."
    )
    assert user_prompt("hi", "Costs 5$$.").hint is None
    assert user_prompt("hi", "---\nno end").body == "---\nno end"


@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("$1 and $2", "a 'b c'", "a and b c"),
        ("$1|$3", "a", "a|"),
        ("all: $ARGUMENTS", "a 'b c'", "all: a 'b c'"),
        ("$FILE at $HOME", "FILE=x.py", "x.py at $HOME"),
        ("costs $$1", "a", "costs $1"),
        ("$1", "it's", "it's"),
    ],
)
def test_the_places_of_a_prompt_are_filled(body: str, arguments: str, text: str) -> None:
    assert filled_prompt(body, arguments) == text


@given(st.text(), st.text())
def test_what_is_filled_in_is_not_filled_again(first: str, second: str) -> None:
    words = filled_prompt("$1", "'$2' x")
    assert words == "$2"
    assert isinstance(filled_prompt(first, second), str)


def test_skills_are_named_with_a_dollar_sign_each_once() -> None:
    skills = {name: skill(name) for name in ("lint", "ship-it")}

    found = skill_mentions("use $lint, then $ship-it and $lint; costs 5$lint, $other", skills)

    assert [each.name for each in found] == ["lint", "ship-it"]


def test_all_commands_are_offered_ours_first_and_no_name_twice() -> None:
    prompts = [UserPrompt(name, "Fix it", "what", "Fix $1") for name in ("fix", "fix all")]
    skills = [skill("lint"), skill("off", enabled=False), skill("review"), skill("lint")]

    commands = available_commands(prompts, skills).commands

    own = [command.name for command in BUILT_IN]
    assert [command.name for command in commands] == [*own, "prompts:fix", "lint"]
    fix = commands[len(own)]
    assert (fix.description, fix.hint) == ("Fix it", "what")
    assert commands[own.index("compact")].hint is None


def test_a_command_has_a_hint_if_it_takes_arguments() -> None:
    without = {command.name for command in BUILT_IN if command.hint is None}

    assert without == {"compact", "diff", "status", "skills", "ps", "logout"}
    hints = {command.name: command.hint for command in BUILT_IN}
    assert hints["plan"] == "on, off, or what to plan (turns it on)"


def test_a_long_description_of_a_skill_is_one_line_that_says_it_was_cut() -> None:
    (found,) = available_commands([], [skill("x", description="a\nb " * 200)]).commands[
        len(BUILT_IN) :
    ]

    assert "\n" not in found.description
    assert found.description.endswith("…")
    assert len(found.description) < 210


@pytest.mark.parametrize("name", ["logout", "Logout", "LOGOUT", "\uff4cogout", "Init"])
def test_a_name_that_reads_like_one_of_ours_is_ours(name: str) -> None:
    assert built_in_name(name) in {command.name for command in BUILT_IN}
    offered = available_commands([], [skill(name)]).commands
    assert [command.name for command in offered] == [command.name for command in BUILT_IN]


@pytest.mark.parametrize("name", ["log-out", "logouts", "mcp:reconnect", "prompts:logout", ""])
def test_a_name_that_does_not_is_free(name: str) -> None:
    assert built_in_name(name) is None


def test_a_codex_that_others_use_is_logged_out_by_none_of_them() -> None:
    names = [command.name for command in available_commands([], [], shares_codex=True).commands]
    assert names == [command.name for command in BUILT_IN if command.name != "logout"]
