"""Define the slash commands of a session, read commands from prompts, and write their answers.

Owns the names of commands, the texts of their answers, and the templates of prompts. A prompt of
text alone (`simple_prompt`), as most first prompts are, stays plain JSON on its way to Codex: the
generated classes are imported later.
Source: ACP page "Slash Commands"; Codex's ``skills/list``, and the prompt files of Codex's home.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from codex_acp._record import NamedTuple, replace
from codex_acp.mapping.content import TextBlock
from codex_acp.mapping.events import Command, CommandsChanged
from codex_acp.routing.display import block, code_span, inline, is_plain, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from codex_acp.codex._generated import models
    from codex_acp.codex._generated.models import SkillMetadata
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.options import Option


RECONNECT: Final = "reconnect"
"""Argument of ``/mcp``: start the servers anew that failed or whose settings have changed."""
BUILT_IN: Final = (
    Command("review", "Review the uncommitted changes", "what to look at (optional)"),
    Command("review-branch", "Review the changes against another branch", "the base branch"),
    Command("review-commit", "Review the changes of one commit", "the commit"),
    Command("compact", "Summarise the conversation to free its context"),
    Command("plan", "Turn plan mode on or off", "on, off, or what to plan (turns it on)"),
    Command("init", "Write an AGENTS.md for this project", "what to heed (optional)"),
    Command("goal", "Work towards a goal until it is reached", "the goal; or clear, pause, resume"),
    Command("diff", "Show the uncommitted changes, new files included"),
    Command("status", "Show the session's settings, account and use of tokens"),
    Command("mcp", "List the MCP servers and their tools, or start them anew", RECONNECT),
    Command("skills", "List the skills"),
    Command("ps", "List the commands that run in the background"),
    Command("stop", "End what runs in the background", "a process of /ps (all without one)"),
    Command("rename", "Give this session a name", "the name"),
    Command("logout", "Log Codex out"),
)
"""The agent's own commands, as the client shows them. No other command has one of these names."""
_SHARED: Final = tuple(
    replace(command, hint=None) if command.hint == RECONNECT else command
    for command in BUILT_IN
    if command.name != "logout"
)
"""Commands for clients that share one Codex: none logs out the others or restarts their servers."""
PROMPTS_PREFIX: Final = "prompts:"
"""Prefix of the command of a user's prompt file, as in Codex's own terminal."""
INIT_PROMPT: Final = """\
Write a file AGENTS.md in the root of this project: a guide for coding agents that work here.

Look at the project first. Then say, in plain words and no more than a page:
- what the project is, and where its parts lie;
- how to build, test, lint and run it, with the exact commands;
- the rules of style and naming that the code really follows;
- how commits and pull requests are written, as the history shows;
- what a newcomer would get wrong.

Write only what you have seen here; leave out what does not apply.
"""
_RESERVED: Final = frozenset(command.name for command in BUILT_IN)
_COMMAND: Final = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)  # /name arguments
_SKILL: Final = re.compile(r"(?<![\w$])\$([A-Za-z0-9][\w:-]*)")  # $name
_PLACEHOLDER: Final = re.compile(r"\$(\$|[1-9]|[A-Za-z_][A-Za-z0-9_]*)")  # $$, $1, $NAME
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)  # NAME=value
_FRONT_MATTER: Final = "---"
"""Line before and after the front matter of a prompt file."""
_DESCRIPTION_LIMIT: Final = 200
"""Characters of a description in the list of commands: clients show one line."""


class TypedCommand(NamedTuple):
    """A command that a person typed."""

    name: str
    arguments: str


def typed_command(text: str) -> TypedCommand | None:
    """Return the command in ``text``, also one that does not exist; None for other text."""
    match = _COMMAND.fullmatch(text.strip())
    return None if match is None else TypedCommand(match[1], (match[2] or "").strip())


def built_in_name(name: str) -> str | None:
    """Return the built-in command that a name looks like (any case or width of letters), or None.
    So no skill of a repository can pass for a built-in command."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return folded if folded in _RESERVED else None


def may_name_command(text: str) -> bool:
    """Return whether a prompt may name a command or a skill."""
    return text.lstrip().startswith("/") or _SKILL.search(text) is not None


def simple_prompt(params: JsonValue) -> tuple[str, list[TextBlock]] | None:
    """Return session id and text of a ``session/prompt`` that has text alone and names no command
    or skill; else None."""
    if not isinstance(params, dict) or params.keys() != {"sessionId", "prompt"}:
        return None
    session_id, prompt = params["sessionId"], params["prompt"]
    if not isinstance(session_id, str) or not isinstance(prompt, list) or not prompt:
        return None
    blocks: list[TextBlock] = []
    for part in prompt:
        if not isinstance(part, dict) or part.keys() != {"type", "text"} or part["type"] != "text":
            return None
        text = part["text"]
        if not isinstance(text, str):
            return None
        blocks.append(TextBlock(text))
    # Commands and skills are read from the first block only.
    return None if may_name_command(blocks[0].text) else (session_id, blocks)


def simple_turn_params(
    thread_id: str, message: Sequence[TextBlock], message_id: str
) -> dict[str, JsonValue]:
    """Return the params of ``turn/start`` for a `simple_prompt`."""
    return {
        "clientUserMessageId": message_id,
        "input": [{"type": "text", "text": part.text} for part in message],
        "threadId": thread_id,
    }


# Prompt files of the user.


class UserPrompt(NamedTuple):
    """A prompt file: Markdown with placeholders for arguments."""

    name: str
    description: str
    hint: str | None
    body: str


def user_prompt(name: str, text: str) -> UserPrompt:
    """Read a prompt file; its front matter may have ``description`` and ``argument-hint``."""
    lines = text.splitlines(keepends=True)
    fields: dict[str, str] = {}
    body = text
    marks = [number for number, line in enumerate(lines) if line.strip() == _FRONT_MATTER]
    if len(marks) > 1 and marks[0] == 0:
        body = "".join(lines[marks[1] + 1 :])
        for line in lines[1 : marks[1]]:
            key, colon, value = line.partition(":")
            if colon:
                fields[key.strip()] = value.strip().strip("\"'")
    hint = fields.get("argument-hint") or fields.get("argument_hint")
    if hint is None and _PLACEHOLDER.search(body.replace("$$", "")):
        hint = "arguments"
    description = fields.get("description") or f"Your prompt {name}"
    return UserPrompt(name, description, hint, body)


def filled_prompt(body: str, arguments: str) -> str:
    """Fill the placeholders of a prompt: ``$1`` to ``$9``, ``$ARGUMENTS``, ``$NAME``, ``$$``.
    ``$NAME`` stays if no argument is ``NAME=value``: it may be a variable of a shell."""
    import shlex  # here: the first turn must not wait for this import

    try:
        words = shlex.split(arguments)
    except ValueError:  # an open quotation mark
        words = arguments.split()
    assignments = map(_ASSIGNMENT.fullmatch, words)
    values = {match[1]: match[2] for match in assignments if match is not None}

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name == "$":
            return "$"
        if name.isdigit():
            number = int(name)
            return words[number - 1] if number <= len(words) else ""
        return arguments if name == "ARGUMENTS" else values.get(name, match[0])

    return _PLACEHOLDER.sub(fill, body)


# The list of commands for a client.


def skill_mentions(text: str, skills: Mapping[str, SkillMetadata]) -> list[SkillMetadata]:
    """Return the skills that a text names as ``$name``, each once, in order."""
    names = dict.fromkeys(_SKILL.findall(text))
    return [skills[name] for name in names if name in skills]


def available_commands(
    prompts: Iterable[UserPrompt], skills: Iterable[SkillMetadata], *, shares_codex: bool = False
) -> CommandsChanged:
    """Return all commands of a session: built-in ones, the user's prompts and enabled skills.
    ``shares_codex``: other clients use the same Codex."""
    commands = list(_SHARED if shares_codex else BUILT_IN)
    for prompt in prompts:
        if _is_word(prompt.name):
            hint = prompt.hint and visible(prompt.hint)
            name, description = PROMPTS_PREFIX + prompt.name, _one_line(prompt.description)
            commands.append(Command(name, description, hint))
    names = {command.name for command in commands}
    for skill in skills:
        name = skill.name
        if skill.enabled and name not in names and not built_in_name(name) and _is_word(name):
            names.add(name)
            short = skill.interface.short_description if skill.interface is not None else None
            description = short or skill.short_description or skill.description
            commands.append(Command(name, _one_line(description), "what to do with it"))
    return CommandsChanged(commands)


def _is_word(name: str) -> bool:
    """Return whether a name can be typed as one word; ACP v2 allows no spaces in a command."""
    return is_plain(name) and name.split() == [name]


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return inline(line if len(line) <= _DESCRIPTION_LIMIT else f"{line[:_DESCRIPTION_LIMIT]}…")


# Answers of commands, as Markdown for the person.

DIFF_LIMIT: Final = 200_000
"""Characters of a diff that are shown; a longer diff would freeze the client."""
_GOAL_WORDS: Final = {
    "active": "Codex works on it",
    "paused": "paused",
    "blocked": "blocked: Codex cannot go on by itself",
    "usageLimited": "stopped: the account's limit is reached",
    "budgetLimited": "stopped: its budget of tokens is used up",
    "complete": "reached",
}


class Fact(NamedTuple):
    """One line of ``/status``."""

    name: str
    value: str


def status_report(facts: Sequence[Fact]) -> str:
    """Return the answer to ``/status``: one line for each fact."""
    return "\n".join(f"- **{inline(name)}**: {inline(value)}" for name, value in facts)


def setting_facts(options: Sequence[Option]) -> list[Fact]:
    """Return a fact for each config option, with its current value."""
    facts = []
    for option in options:
        if option.switch:
            value = "on" if option.is_on else "off"
        else:
            choices = (*option.choices, *option.grouped)
            names = (choice.name for choice in choices if choice.value == option.current)
            value = next(names, option.current)
        facts.append(Fact(option.name, value))
    return facts


def account_fact(account: models.GetAccountResponse) -> Fact:
    """Return the fact about the login."""
    from codex_acp.codex._generated import models

    who = account.account
    if who is None:
        value = "nobody is logged in" if account.requires_openai_auth else "none needed"
        return Fact("Account", value)
    if isinstance(who, models.ChatgptAccount):
        return Fact("Account", f"ChatGPT {who.plan_type}" + (f", {who.email}" if who.email else ""))
    if isinstance(who, models.ApiKeyAccount):
        return Fact("Account", "an API key")
    return Fact("Account", str(getattr(who, "type", "of a kind unknown here")))


def limit_facts(limits: models.RateLimitSnapshot) -> list[Fact]:
    """Return a fact for each limit of the account: how much is used."""
    facts = []
    for window in (limits.primary, limits.secondary):
        if window is not None:
            minutes = window.window_duration_mins
            span = "" if minutes is None else f" of {span_words(minutes)}"
            facts.append(Fact("Limit", f"{window.used_percent} % used{span}"))
    return facts


def span_words(minutes: int) -> str:
    """Return a span of time in words: ``5 hours``, ``a day``."""
    days, rest = divmod(minutes, 24 * 60)
    if days and not rest:
        return f"{days} days" if days > 1 else "a day"
    hours, rest = divmod(minutes, 60)
    return f"{hours} hours" if hours and not rest else f"{minutes} minutes"


def mcp_report(servers: Sequence[models.McpServerStatus], starting: Collection[str] = ()) -> str:
    """Return a line for each MCP server, with its state and tools; ``starting`` has the names of
    the servers that still start."""
    from codex_acp.codex.approvals.running_items import full_server_name

    if not servers:
        return "No MCP servers are configured."
    lines = []
    for server in servers:
        name = full_server_name(server.name, server.environment_id)
        notes = []
        if name in starting:
            notes.append("still starting")
        if server.auth_status == "notLoggedIn":
            notes.append("not logged in")
        if server.tools_error:
            notes.append(f"its tools are unknown: {inline(server.tools_error)}")
        tools = ", ".join(code_span(visible(tool)) for tool in sorted(server.tools))
        notes.append(tools or "no tools")
        lines.append(f"- **{inline(name)}**: {'; '.join(notes)}")
    return "\n".join(lines)


def background_report(terminals: Sequence[models.ThreadBackgroundTerminal]) -> str:
    """Return a line for each command that runs in the background."""
    return "\n".join(map(_terminal_line, terminals)) or "Nothing runs in the background."


def stopped_report(ended: int, running: Sequence[models.ThreadBackgroundTerminal]) -> str:
    """Return how many commands were ended, and a line for each command that could not be ended."""
    if not ended and not running:
        return "Nothing runs in the background."
    lines = [f"{ended} background command{'s' * (ended != 1)} ended."]
    lines += [f"{_terminal_line(terminal)}: it could not be ended" for terminal in running]
    return "\n".join(lines)


def _terminal_line(terminal: models.ThreadBackgroundTerminal) -> str:
    where = inline(str(terminal.cwd))
    return f"- **process {inline(terminal.process_id)}**: {inline(terminal.command)} in {where}"


def skills_report(entries: Iterable[models.SkillsListEntry]) -> str:
    """Return a line for each skill, and for each file of a skill that could not be read."""
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
    """Return the goal of the thread, its status, and the tokens and time used."""
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
    """Return the uncommitted changes of a working tree."""
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
