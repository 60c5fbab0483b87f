"""The reference of the command, from its parsers: every command and option with its help."""

from __future__ import annotations

import argparse

from codex_acp.cli import arguments
from codex_acp.cli.commands import COMMANDS

HEAD = """\
# The command's options

`nox -s docs_pages` makes this page from the command's own parsers. [The command](../command.md) has
the environment variables, the exit codes, and the search for the Codex binary.
"""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by the command's words; the agent first."""
    made = [arguments.serve_parser()]
    made += [each.parser() for word, each in COMMANDS.items() if word not in ("serve", "help")]
    made += [below for parser in made for below in arguments.subcommands(parser).values()]
    made.sort(key=lambda parser: (" " in parser.prog, parser.prog))
    return {parser.prog: parser for parser in made}


def pages() -> dict[str, str]:
    """Return the page of all commands."""
    parts = [HEAD, *(_section(prog, parser) for prog, parser in parsers().items())]
    return {"reference/command-options.md": "\n".join(parts)}


def _section(prog: str, parser: argparse.ArgumentParser) -> str:
    lines = [f"## `{prog}`", "", _escaped(" ".join((parser.description or "").split())), ""]
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    lines += ["| written | meaning |", "|---|---|"]
    lines += [f"| {_written(action)} | {_help(parser, action)} |" for action in shown]
    if parser.epilog:
        lines += ["", "```text", parser.epilog.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _written(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest
    if action.choices is not None and action.metavar is None:
        metavar = ", ".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{metavar.replace('|', '`, `')}`"
    value = f" {metavar}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
