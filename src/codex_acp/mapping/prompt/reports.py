"""Write the answers of commands that only report, as Markdown for a person.

Owns the words. What others wrote (names of servers, tools, skills, their words) is code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.codex._generated import models
from codex_acp.routing.display import block, code_span, inline, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from codex_acp.mapping.config.options import Option

DIFF_LIMIT: Final = 200_000
"""Characters of a diff that are shown; a longer one would freeze the client."""

_GOAL_WORDS: Final = {
    "active": "Codex works on it",
    "paused": "paused",
    "blocked": "blocked: Codex cannot go on by itself",
    "usageLimited": "stopped: the account's limit is reached",
    "budgetLimited": "stopped: its budget of tokens is used up",
    "complete": "reached",
}


class Fact(NamedTuple):
    """One line of the status."""

    name: str
    value: str


def status_report(facts: Sequence[Fact]) -> str:
    """The session's settings, one a line."""
    return "\n".join(f"- **{inline(name)}**: {inline(value)}" for name, value in facts)


def setting_facts(options: Sequence[Option]) -> list[Fact]:
    """The config options of a session as they are set."""
    return [Fact(option.name, _set_to(option)) for option in options]


def _set_to(option: Option) -> str:
    if option.switch:
        return "on" if option.current == option.values[1] else "off"
    choices = (*option.choices, *option.grouped)
    return next((c.name for c in choices if c.value == option.current), option.current)


def account_fact(account: models.GetAccountResponse) -> Fact:
    """Return the login, as a fact of the report."""
    who = account.account
    if who is None:
        needed = "nobody is logged in" if account.requires_openai_auth else "none needed"
        return Fact("Account", needed)
    if isinstance(who, models.ChatgptAccount):
        return Fact("Account", f"ChatGPT {who.plan_type}" + (f", {who.email}" if who.email else ""))
    if isinstance(who, models.ApiKeyAccount):
        return Fact("Account", "an API key")
    return Fact("Account", str(getattr(who, "type", "of a kind unknown here")))


def limit_facts(limits: models.RateLimitSnapshot) -> list[Fact]:
    """How much of the account's limits is used."""
    windows = [w for w in (limits.primary, limits.secondary) if w is not None]
    return [Fact("Limit", _window(window)) for window in windows]


def _window(window: models.RateLimitWindow) -> str:
    minutes = window.window_duration_mins
    span = "" if minutes is None else f" of {span_words(minutes)}"
    return f"{window.used_percent} % used{span}"


def span_words(minutes: int) -> str:
    """A span of time for a person: ``5 hours``, ``a day``."""
    days, rest = divmod(minutes, 24 * 60)
    if days and not rest:
        return f"{days} days" if days > 1 else "a day"
    hours, rest = divmod(minutes, 60)
    return f"{hours} hours" if hours and not rest else f"{minutes} minutes"


def mcp_report(servers: Sequence[models.McpServerStatus], starting: Collection[str] = ()) -> str:
    """Each MCP server, how it stands, and its tools; ``starting`` are those that still start."""
    if not servers:
        return "No MCP servers are configured."
    return "\n".join(_server(server, starting) for server in servers)


def _server(server: models.McpServerStatus, starting: Collection[str]) -> str:
    notes = []
    if server.name in starting:
        notes.append("still starting")
    if server.auth_status == "notLoggedIn":
        notes.append("not logged in")
    if server.tools_error:
        notes.append(f"its tools are unknown: {inline(server.tools_error)}")
    tools = ", ".join(code_span(visible(name)) for name in sorted(server.tools))
    notes.append(tools or "no tools")
    return f"- **{inline(server.name)}**: {'; '.join(notes)}"


def background_report(terminals: Sequence[models.ThreadBackgroundTerminal]) -> str:
    """Each command that runs in the background."""
    return "\n".join(map(_terminal, terminals)) or "Nothing runs in the background."


def stopped_report(ended: int, left: Sequence[models.ThreadBackgroundTerminal]) -> str:
    """How many were ended, and what could not be."""
    if not ended and not left:
        return "Nothing runs in the background."
    lines = [f"{ended} background command{'s' * (ended != 1)} ended."]
    return "\n".join([*lines, *(f"{_terminal(each)}: it could not be ended" for each in left)])


def _terminal(terminal: models.ThreadBackgroundTerminal) -> str:
    where = inline(str(terminal.cwd))
    return f"- **process {inline(terminal.process_id)}**: {inline(terminal.command)} in {where}"


def skills_report(entries: Iterable[models.SkillsListEntry]) -> str:
    """Each skill, how it is called, and what could not be read."""
    lines: list[str] = []
    for entry in entries:
        for skill in entry.skills:
            off = "" if skill.enabled else " (off)"
            about = " ".join(skill.description.split())
            lines.append(f"- {inline(f'${skill.name}')}{off}: {inline(about)}")
        lines += [
            f"- {inline(e.path)} could not be read: {inline(e.message)}" for e in entry.errors
        ]
    return "\n".join(lines) or "There are no skills here."


def goal_report(goal: models.ThreadGoal | None) -> str:
    """The goal of the thread and how far it is."""
    if goal is None:
        return "This session has no goal. `/goal TEXT` sets one."
    how = _GOAL_WORDS.get(goal.status) or inline(str(goal.status))
    budget = "" if goal.token_budget is None else f" of {goal.token_budget:,}"
    return (
        f"**Goal**: {inline(goal.objective, None)}\n\n"
        f"{how[0].upper()}{how[1:]}. {goal.tokens_used:,}{budget} tokens and "
        f"{goal.time_used_seconds:,} seconds were used."
    )


def diff_report(diff: str, new_files: Sequence[str]) -> str:
    """The changes of a working tree that no commit has."""
    if not diff and not new_files:
        return "There are no uncommitted changes."
    parts = []
    if diff:
        shown = diff[:DIFF_LIMIT].replace("\r\n", "\n")
        parts.append(block(shown.rstrip("\n"), "diff"))
        if len(diff) > DIFF_LIMIT:
            cut = len(diff) - DIFF_LIMIT
            parts.append(f"{cut:,} of {len(diff):,} characters are not shown.")
    if new_files:
        listed = "\n".join(f"- {code_span(visible(name))}" for name in new_files)
        parts.append(f"New files that git does not follow yet:\n{listed}")
    return "\n\n".join(parts)
