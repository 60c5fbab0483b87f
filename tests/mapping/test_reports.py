"""What the commands that only tell something say."""

from __future__ import annotations

from typing import Any

import pytest

from codex_acp.codex.types import (
    GetAccountResponse,
    McpServerStatus,
    RateLimitSnapshot,
    SkillsListEntry,
    ThreadBackgroundTerminal,
    ThreadGoal,
)
from codex_acp.mapping.commands import (
    DIFF_LIMIT,
    Fact,
    account_fact,
    background_report,
    diff_report,
    goal_report,
    limit_facts,
    mcp_report,
    skills_report,
    status_report,
    stopped_report,
)
from codex_acp.wire.codec import decode


def server(**more: Any) -> McpServerStatus:
    wire = {"name": "notes", "authStatus": "unsupported", "resources": [], "tools": {}}
    return decode(McpServerStatus, {**wire, "resourceTemplates": [], **more})


def goal(**more: Any) -> ThreadGoal:
    wire = {"createdAt": 1, "updatedAt": 1, "objective": "Ship", "status": "active"}
    used = {"threadId": "t", "timeUsedSeconds": 90, "tokensUsed": 12_345}
    return decode(ThreadGoal, {**wire, **used, **more})


def test_the_status_is_a_list_of_facts() -> None:
    text = status_report([Fact("Folder", "/x"), Fact("Model", "gpt\u202e-5")])

    assert text.splitlines() == ["- **Folder**: /x", "- **Model**: `gpt⟦U+202E⟧-5`"]


@pytest.mark.parametrize(
    ("account", "said"),
    [
        ({"account": None, "requiresOpenaiAuth": True}, "nobody is logged in"),
        ({"account": None, "requiresOpenaiAuth": False}, "none needed"),
        ({"account": {"type": "apiKey"}, "requiresOpenaiAuth": True}, "an API key"),
        (
            {
                "account": {"type": "chatgpt", "email": "a@b.c", "planType": "pro"},
                "requiresOpenaiAuth": True,
            },
            "ChatGPT pro, a@b.c",
        ),
        ({"account": {"type": "new"}, "requiresOpenaiAuth": True}, "new"),
    ],
)
def test_the_account_is_named_by_its_kind(account: dict[str, Any], said: str) -> None:
    assert account_fact(decode(GetAccountResponse, account)).value == said


def test_the_limits_say_how_much_of_which_span_is_used() -> None:
    windows = {
        "primary": {"usedPercent": 20, "windowDurationMins": 300},
        "secondary": {"usedPercent": 55, "windowDurationMins": 10_080},
    }

    facts = limit_facts(decode(RateLimitSnapshot, windows))

    assert [fact.value for fact in facts] == ["20 % used of 5 hours", "55 % used of 7 days"]


def test_mcp_servers_are_listed_with_their_tools_and_their_trouble() -> None:
    tool = {"name": "read", "inputSchema": {}}
    text = mcp_report(
        [
            server(tools={"write": {**tool, "name": "write"}, "read": tool}),
            server(name="locked", authStatus="notLoggedIn", toolsError="401"),
            server(name="locked", environmentId="box"),
        ]
    )

    assert text.splitlines() == [
        "- **notes**: `read`, `write`",
        "- **locked**: not logged in; its tools are unknown: 401; no tools",
        "- **locked (environment box)**: no tools",
    ]
    assert mcp_report([]) == "No MCP servers are configured."


def test_skills_are_listed_with_what_could_not_be_read() -> None:
    skill = {"name": "lint", "description": "Lints\nall.", "path": "/s", "scope": "user"}
    entry = {
        "cwd": "/x",
        "skills": [{**skill, "enabled": True}, {**skill, "name": "old", "enabled": False}],
        "errors": [{"path": "/bad", "message": "no name"}],
    }

    assert skills_report([decode(SkillsListEntry, entry)]).splitlines() == [
        "- `$lint`: Lints all.",
        "- `$old` (off): Lints all.",
        "- /bad could not be read: no name",
    ]
    assert skills_report([]) == "There are no skills here."


def test_a_goal_says_how_far_it_is() -> None:
    assert goal_report(None).startswith("This session has no goal.")
    assert "12,345 tokens and 90 seconds" in goal_report(goal())
    assert "12,345 of 20,000 tokens" in goal_report(goal(tokenBudget=20_000))
    assert "Reached." in goal_report(goal(status="complete"))
    assert "Levitating." in goal_report(goal(status="levitating"))


def test_a_diff_is_fenced_so_that_nothing_in_it_ends_the_fence() -> None:
    text = diff_report("+```\n+evil\n", ["new.py"])

    assert text.startswith("````diff\n+```\n")
    assert "\n````\n" in text
    assert text.endswith("- `new.py`")
    assert diff_report("", []) == "There are no uncommitted changes."


def test_a_diff_that_is_cut_says_so() -> None:
    text = diff_report("x" * (DIFF_LIMIT + 5), [])

    assert text.endswith(f"5 of {DIFF_LIMIT + 5:,} characters are not shown.")


def test_what_runs_in_the_background_is_shown_as_others_wrote_it() -> None:
    wire = {"command": "sleep *9*\u202e", "cwd": "/w", "itemId": "i", "processId": "7"}
    terminal = decode(ThreadBackgroundTerminal, wire)
    listed = background_report([terminal, terminal])
    assert listed.splitlines() == ["- **process 7**: `sleep *9*⟦U+202E⟧` in /w"] * 2
    assert background_report([]) == stopped_report(0, []) == "Nothing runs in the background."
    assert stopped_report(2, []) == "2 background commands ended."
    assert stopped_report(0, [terminal]).endswith("it could not be ended")
