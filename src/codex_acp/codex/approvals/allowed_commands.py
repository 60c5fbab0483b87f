"""A policy for commands that a program names: whole commands, word by word, never substrings.

What Codex parsed of a command (``commandActions``) is made for display and leaves out parts: of
``cat a | awk '{system("rm b")}'`` it names ``cat a`` alone. So a command is allowed only when each
of its simple commands is one that was named, and what Codex parsed is among them.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp.codex.approvals.classify import CommandApproval
from codex_acp.codex.approvals.grants import Once
from codex_acp.codex.approvals.policies import Allow, ApprovalQuestion, Decision, Policy
from codex_acp.errors import MisuseError
from codex_acp.wire.model import UnknownVariant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codex_acp.codex._generated.models import CommandExecutionRequestApprovalParams

Words = tuple[str, ...]

_SHELLS: Final = frozenset(
    f"{directory}/{name}"
    for directory in ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
    for name in ("bash", "dash", "sh", "zsh")
)
"""The shells whose ``-c`` is looked into: a model can name any other program as its shell."""

_PIECE: Final = re.compile(r"""'[^']*'|"[^"]*"|[^\s'"();<>|&]+""")
"""A piece of a word: quotes may begin and end anywhere in it."""

_TOKEN: Final = re.compile(rf" +|(?P<word>(?:{_PIECE.pattern})+)|(?P<joint>[();<>|&]+)")
"""As a shell reads it from the left, where nothing is expanded: a quote that is not closed is none.
"""

_JOINTS: Final = frozenset({"&&", "||", "|", ";"})
"""Signs that may stand between two simple commands."""

_EXPANSIONS: Final = frozenset("$`\\")
"""With one of these a word is not what it looks like."""

_LONGEST: Final = 64 * 1024
"""Characters of a command; whoever reads a longer one keeps the event loop from all else."""

_MORE: Final = "*"
"""As the last word of a named command: any further words."""


def allow_commands(
    commands: Iterable[str | Sequence[str]], *, within: str | os.PathLike[str] | None = None
) -> Policy:
    """Let these commands run, each once, and no others.

    A command is a string (``"npm test"``) or its words (``["npm", "test"]``), and matches as a
    whole; ``*`` as the last word stands for any further words (``"git diff *"``), options included.
    Several commands in one line (``&&``, ``||``, ``|``, ``;``) have to be named each. A line with
    redirections, substitutions, variables, escapes or a second line is never allowed here, nor is
    one above 64 Ki characters, input for a running command, a host of the network, or more
    permissions. With ``within`` they run only in this directory or below it: what ``npm test`` does
    depends on where it runs. What counts is the directory's real path, and it must be the same when
    the answer goes out.

    Raises MisuseError for one string instead of several commands, and for a command that is empty
    or has shell syntax in it.
    """
    if isinstance(commands, str):
        raise MisuseError(f"allow_commands wants a collection of commands: [{commands!r}]")
    named = frozenset(_named(command) for command in commands)
    return _AllowCommands(named, None if within is None else os.path.realpath(within))


@dataclass(frozen=True, slots=True, repr=False)
class _AllowCommands(Policy):
    named: frozenset[Words]
    within: str | None

    async def decide(self, question: ApprovalQuestion) -> Decision | None:
        if not isinstance(question.approval, CommandApproval) or Once() not in question.offered:
            return None
        params = question.approval.request.params
        real_cwd = question.real_paths.get(params.cwd or "")
        if not _is_only_a_command(params) or not self._is_here(real_cwd):
            return None
        if _length(params) > _LONGEST:
            return None
        found = _simple_commands(params.command or "")
        if not found or not all(map(self._is_named, found)) or not _is_told(params, found):
            return None
        return Allow(Once())

    def __repr__(self) -> str:
        commands = [shlex.join(words) for words in sorted(self.named)]
        return f"allow_commands({commands!r}, within={self.within!r})"

    def _is_named(self, words: Words) -> bool:
        if words in self.named:
            return True
        return any(n[-1] == _MORE and words[: len(n) - 1] == n[:-1] for n in self.named)

    def _is_here(self, real: str | None) -> bool:
        if self.within is None:
            return True
        return real is not None and os.path.commonpath([self.within, real]) == self.within


def _named(command: str | Sequence[str]) -> Words:
    if isinstance(command, str):
        found = _split(command)
        words = found[0] if found is not None and len(found) == 1 else ()
    else:
        words = tuple(command)
    if not words or words[0] in ("", _MORE):
        message = f"allow_commands wants whole simple commands, such as 'npm test', not {command!r}"
        raise MisuseError(message)
    return words


def _is_only_a_command(params: CommandExecutionRequestApprovalParams) -> bool:
    """Return whether a request only asks to start a command."""
    more = (params.network_approval_context, params.additional_permissions)
    return params.kind == "command" and all(part is None for part in more)


def _length(params: CommandExecutionRequestApprovalParams) -> int:
    """Characters of the command, and of what Codex parsed of it, which repeats parts."""
    parsed = (a for a in params.command_actions or () if not isinstance(a, UnknownVariant))
    return max(len(params.command or ""), sum(len(action.command) for action in parsed))


def _simple_commands(command: str) -> list[Words] | None:
    """The simple commands of what Codex would start; None if it may be anything else."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    match words:
        case [shell, "-c" | "-lc", script] if shell in _SHELLS:
            return _split(script)
    return [tuple(words)] if words else None


def _split(script: str) -> list[Words] | None:
    """The words of each simple command; None for shell syntax that this does not know for sure."""
    if not script.isprintable() or _EXPANSIONS.intersection(script):
        return None
    found: list[list[str]] = [[]]
    place = 0
    while place < len(script):
        token = _TOKEN.match(script, place)
        if token is None:
            return None
        place = token.end()
        if token["word"]:
            found[-1].append(_PIECE.sub(_without_quotes, token["word"]))
        elif token["joint"]:
            if token["joint"] not in _JOINTS:
                return None
            found.append([])
    return [tuple(words) for words in found] if all(found) else None


def _without_quotes(piece: re.Match[str]) -> str:
    return piece[0][1:-1] if piece[0][0] in "'\"" else piece[0]


def _is_told(params: CommandExecutionRequestApprovalParams, found: list[Words]) -> bool:
    """Return whether all that Codex parsed of the command, which it may have seen otherwise, is
    among ``found``."""
    for action in params.command_actions or ():
        if isinstance(action, UnknownVariant):
            return False
        parsed = _split(action.command)
        if parsed is None or not set(parsed) <= set(found):
            return False
    return True
