"""Make the completion script of each shell from the parsers of the commands.

Each script is static text, so that completing starts no program. Must not know which commands and
options there are.
"""

from __future__ import annotations

import argparse
import re
import shlex
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from codex_acp.cli.arguments import subcommands
from codex_acp.cli.logs import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Parsers: TypeAlias = "Mapping[str, tuple[str, argparse.ArgumentParser]]"
    """Command → its summary and its parser; the first command's word may be left out."""

Value: TypeAlias = "Literal['files', 'directories', 'free'] | tuple[str, ...]"
"""How to complete an argument: with paths, with nothing (``free``), or with these words."""
_VALUES: Final[Mapping[str, Value]] = {
    "FILE": "files", "PATH": "files", "OUT": "files", "DIR": "directories", "LEVEL": LEVELS,
}  # fmt: skip
"""How to complete the arguments with these placeholders; all others are ``free``."""
_HELP_LENGTH: Final = 70
"""Characters of an option's help in a script."""


class _Command(NamedTuple):
    name: str
    summary: str
    options: list[argparse.Action]
    value: Value
    """How to complete its first positional argument."""


def _commands(parsers: Parsers) -> list[_Command]:
    commands = []
    for name, (summary, parser) in parsers.items():
        positional = [action for action in _documented(parser) if not action.option_strings]
        value = _value(positional[0]) if positional else None
        options = {tuple(option.option_strings): option for option in _options(parser)}
        commands.append(_Command(name, summary, [*options.values()], value or "free"))
    return commands


def _documented(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options of a parser and of its subcommands."""
    yield from (action for action in _documented(parser) if action.option_strings)
    for subparser in subcommands(parser).values():
        yield from _options(subparser)


def _value(action: argparse.Action) -> Value | None:
    """Return how to complete the value of an argument; None for an option without a value."""
    if action.nargs == 0:
        return None
    if action.choices is not None:
        return tuple(str(choice) for choice in action.choices)
    placeholder = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return _VALUES.get(placeholder, "free")


def _short_help(action: argparse.Action) -> str:
    """Return the first clause of an argument's help, without characters that need quotes."""
    text = (action.help or "").replace("%%", "%")
    clause = re.split(r"[;(\n]|:\s", text, maxsplit=1)[0].strip()
    if len(clause) <= _HELP_LENGTH:
        return clause
    return f"{clause[:_HELP_LENGTH].rpartition(' ')[0].rstrip(',')} ..."


def _function(program: str) -> str:
    return "_" + re.sub(r"\W", "_", program)


def bash(program: str, parsers: Parsers) -> str:
    """Return the script for bash, 3.2 or later."""
    commands = _commands(parsers)
    others = [command.name for command in commands[1:]]
    answers = []
    for command in commands:
        for option in command.options:
            if (value := _value(option)) is not None:
                patterns = "|".join(f"{command.name},{name}" for name in option.option_strings)
                answers.append(f"    {patterns}) {_bash_answer(value)} ;;")
    for command in commands:
        offered = _bash_words(
            [name for option in command.options for name in option.option_strings]
        )
        answers.append(f"    {command.name},*) if [[ $current == -* ]]; then {offered}")
        first = command is commands[0]
        plain = _bash_words([c.name for c in commands]) if first else _bash_answer(command.value)
        answers.append(f"      else {plain}; fi ;;")
    return f"""\
# Completes {program} in bash.
{_function(program)}() {{
  local IFS=$'\\n' current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command={commands[0].name} i
  COMPREPLY=()
  if [[ $current == = ]]; then current=
  elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in {"|".join(others)}) command=${{COMP_WORDS[i]}}; break ;; esac
  done
  case $command,$before in
{chr(10).join(answers)}
  esac
}}
complete -F {_function(program)} {program}
"""


def _bash_words(words: Iterable[str]) -> str:
    listed = "".join(f"\\n{word}" for word in words)
    return f"""COMPREPLY=($(compgen -W $'{listed}' -- "$current"))"""


def _bash_answer(value: Value) -> str:
    if isinstance(value, tuple):
        return _bash_words(value)
    if value not in ("files", "directories"):
        return ":"
    flag = "f" if value == "files" else "d"
    return f'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -{flag} -- "$current"))'


def zsh(program: str, parsers: Parsers) -> str:
    """Return the script for zsh, for ``eval`` or a file on ``fpath``."""
    commands = _commands(parsers)
    others = "|".join(command.name for command in commands[1:])
    described = " ".join(shlex.quote(f"{c.name}:{c.summary}") for c in commands)
    arms = []
    for command in commands:
        words = [word for option in command.options for word in _zsh_option(option)]
        if command is commands[0]:
            words.append(f"'1:command:{_function(program)}_commands'")
        elif command.value != "free":
            words.append(shlex.quote(f"1:{command.name}:{_zsh_value(command.value)}"))
        lines = " \\\n        ".join(words)
        arms.append(f"    {command.name})\n      _arguments \\\n        {lines} ;;")
    return f"""\
#compdef {program}
# Completes {program} in zsh.
{_function(program)}_commands() {{
  local -a described=({described})
  _describe command described
}}
{_function(program)}() {{
  local command={commands[0].name} i
  for ((i = 2; i < CURRENT; i++)); do
    case $words[i] in
      ({others}) command=$words[i]; words=("${{(@)words[i,-1]}}"); ((CURRENT -= i - 1)); break ;;
    esac
  done
  case $command in
{chr(10).join(arms)}
  esac
}}
if [[ ${{zsh_eval_context[-1]}} == loadautofunc ]]; then
  {_function(program)} "$@"
else
  compdef {_function(program)} {program}
fi
"""


def _zsh_option(option: argparse.Action) -> Iterator[str]:
    about = re.sub(r"([\[\]:\\])", r"\\\1", _short_help(option))
    value, names = _value(option), option.option_strings
    shown_value = "" if value is None else f":value:{_zsh_value(value)}"
    for name in names:
        repeats = "*" if isinstance(option.default, list) else f"({' '.join(names)})"
        equals = "=" if value is not None and name.startswith("--") else ""
        yield shlex.quote(f"{repeats}{name}{equals}[{about}]{shown_value}")


def _zsh_value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"({' '.join(value)})"
    return {"files": "_files", "directories": "_files -/", "free": " "}[value]


def fish(program: str, parsers: Parsers) -> str:
    """Return the script for fish, 3.0 or later."""
    commands = _commands(parsers)
    others = " ".join(command.name for command in commands[1:])
    lines = [f"# Completes {program} in fish.", f"complete -c {program} -f"]
    for command in commands:
        no_command = f"not __fish_seen_subcommand_from {commands[0].name} {others}"
        lines.append(
            f"complete -c {program} -n {shlex.quote(no_command)} -a {command.name} "
            f"-d {_fish(command.summary)}"
        )
    for command in commands:
        first = command is commands[0]
        seen = f"__fish_seen_subcommand_from {command.name}"
        when = shlex.quote(f"not __fish_seen_subcommand_from {others}" if first else seen)
        start = f"complete -c {program} -n {when}"
        if not first and command.value != "free":
            lines.append(f"{start} {_fish_value(command.value)}")
        for option in command.options:
            names = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.option_strings
            )
            value = _value(option)
            shown_value = "" if value is None else f" -r {_fish_value(value)}"
            lines.append(f"{start} {names} -d {_fish(_short_help(option))}{shown_value}")
    return "\n".join(lines) + "\n"


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish_value(value: Value) -> str:
    if isinstance(value, tuple):
        return f"-x -a {_fish(' '.join(value))}"
    directories = "-x -a '(__fish_complete_directories)'"
    return {"files": "-F", "directories": directories, "free": "-x"}[value]


SCRIPTS: Final[Mapping[str, Callable[[str, Parsers], str]]] = {
    "bash": bash, "zsh": zsh, "fish": fish,
}  # fmt: skip
"""Shell → the function that makes its script."""
