"""Choose and run the command of ``codex-acp-sdk``, from the table of all commands.

The program's help, completions and reference are made from the table. This module is not loaded
when the agent starts without options.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from codex_acp.cli import arguments
from codex_acp.cli.arguments import PROGRAM, network_options
from codex_acp.cli.logs import LEVELS
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENVIRONMENT: Final = """\
environment:
  CODEX_PATH            the Codex binary, where --codex does not name one
  CODEX_ACP_LOG         the log level, where --log-level does not name one
  CODEX_ACP_TRANSCRIPT  the transcript, where --transcript does not name one
  CODEX_ACP_TOKEN       the token of --listen, where --token-file names none
  CODEX_HOME            Codex's own: its configuration, login and sessions

with the same meaning as in @agentclientprotocol/codex-acp:
  CODEX_CONFIG          a JSON object of settings; -c overrides it
  MODEL_PROVIDER        the model provider
  INITIAL_AGENT_MODE    the mode in which a new session begins
  DEFAULT_AUTH_REQUEST  the login to make when Codex needs one
  CODEX_API_KEY, OPENAI_API_KEY
                        API key of the login api-key; the first one set counts
  NO_BROWSER            if set, logins that need a browser here are not offered
  APP_SERVER_LOGS       a directory for the log, where --log-file names none
"""


class Command(NamedTuple):
    """One command: its help, the parser of its arguments, and the function that runs it."""

    summary: str
    """The command's line in the program's help."""
    usage: str
    """Arguments that may follow the command, for the program's usage."""
    parser: Callable[[], argparse.ArgumentParser]
    run: Callable[[argparse.Namespace], int]
    """Gets the parsed arguments; returns the exit code. The module's `run` starts ``serve`` and
    ``login`` itself, and does not call the functions of these two."""


def run(argv: Sequence[str]) -> int:
    """Parse ``argv`` and run the command; return the exit code. argparse may raise SystemExit."""
    first = argv[0] if argv else "serve"
    if first == "login":  # Codex itself parses the further arguments
        return _login(None, argv[1:])
    if first in COMMANDS and first != "serve":
        command = COMMANDS[first]
        return command.run(command.parser().parse_args(argv[1:]))
    if first not in COMMANDS and not first.startswith("-"):
        program_parser().error(_no_command_text(first))
    return _serve(argv)


def _no_command_text(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), COMMANDS, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"use {', '.join(COMMANDS)}"
    return f"there is no command {word!r}; {meant}"


def _serve(argv: Sequence[str]) -> int:
    parser = program_parser()
    options, unknown = parser.parse_known_args(argv)
    # A client logs in with the agent's command and ``login``: ``[options] [serve] login``.
    if options.command == "login" or (options.command == "serve" and unknown[:1] == ["login"]):
        more = unknown if options.command == "login" else unknown[1:]
        return _login(options.codex, [*_config_arguments(options.config), *more])
    # Checked before the command: with ``--unknown x``, argparse takes ``x`` for the command.
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    word = options.command
    if word not in COMMANDS:
        parser.error(_no_command_text(word))
    if options.version or word == "version":
        return COMMANDS["version"].run(options)
    if word != "serve":
        usage = f"{word} {COMMANDS[word].usage}"
        parser.error(f"{word} has options of its own; write them behind it: {usage}")
    if options.transcript_wire:
        from codex_acp.transcript.writer import transcript_path

        if transcript_path(options.transcript, os.environ) is None:
            parser.error("--transcript-wire needs a transcript; name one with --transcript FILE")
    from codex_acp.cli.serve import serve
    from codex_acp.codex.connection.launch import LaunchOptions
    from codex_acp.codex.threads.trust import trust_arguments

    settings = [*_config_arguments(options.config), *trust_arguments(options.trust)]
    try:
        network = network_options(options)
    except MisuseError as error:
        parser.error(str(error))
    return serve(
        LaunchOptions(codex=options.codex, args=settings), line_limit=options.line_limit,
        log_level=options.log_level, log_file=options.log_file, transcript=options.transcript,
        protocol=options.protocol, transcript_wire=options.transcript_wire, record=options.record,
        network=network,
    )  # fmt: skip


def _config_arguments(config: Sequence[str]) -> list[str]:
    return [word for setting in config for word in ("-c", setting)]


def _run_help(parsed: argparse.Namespace) -> int:
    parser = program_parser() if parsed.word is None else COMMANDS[parsed.word].parser()
    for word in parsed.subcommand_words:
        subcommands = arguments.subcommands(parser)
        if word not in subcommands:
            parser.error(f"{parsed.word} has no command {word!r}")
        parser = subcommands[word]
    sys.stdout.write(parser.format_help())
    return 0


def _login(codex: str | None, argv: Sequence[str]) -> int:
    from codex_acp.cli.small_commands import login

    return login(codex, argv)


def _run_routes(parsed: argparse.Namespace) -> int:
    from importlib.resources import files

    name = "routes.json" if parsed.json else "routes.md"  # made from the code by `nox -s goldens`
    sys.stdout.write((files("codex_acp.routing") / name).read_text(encoding="utf-8"))
    return 0


def _run_completions(parsed: argparse.Namespace) -> int:
    import shtab

    parser = program_parser()
    _describe_values(parser)
    # Without the hidden argument for the command, whose place the subparsers take.
    parser._actions[:] = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    subparsers = parser.add_subparsers()
    for word, command in COMMANDS.items():
        command_parser = command.parser()
        _describe_values(command_parser)
        subparsers.add_parser(word, help=command.summary, parents=[command_parser], add_help=False)
    sys.stdout.write(shtab.complete(parser, shell=parsed.shell))
    return 0


def _describe_values(parser: argparse.ArgumentParser) -> None:
    """Tell shtab how to complete the values of a parser's arguments."""
    from shtab import DIRECTORY, FILE

    kinds = {"FILE": FILE, "PATH": FILE, "OUT": FILE, "TASKS": FILE, "DIR": DIRECTORY}
    for action in parser._actions:
        if action.metavar == "LEVEL":
            action.choices = LEVELS
        elif action.metavar in kinds:
            action.complete = kinds[action.metavar]  # type: ignore[attr-defined] # for shtab
    for subparser in arguments.subcommands(parser).values():
        _describe_values(subparser)


def program_parser() -> argparse.ArgumentParser:
    """Return the parser of the agent, with the help of the whole program."""
    parser = arguments.serve_parser()
    width = max(map(len, COMMANDS))
    parser.usage = "%(prog)s [serve] [options]\n       %(prog)s COMMAND [options]"
    parser.description = "\n".join(
        (
            parser.description or "",
            "",
            "commands:",
            *(f"  {word:{width}}  {command.summary}" for word, command in COMMANDS.items()),
            "",
            f"`{PROGRAM} help COMMAND` shows a command's options. Options of `serve`:",
        )
    )
    parser.epilog = ENVIRONMENT
    return parser


def help_parser() -> argparse.ArgumentParser:
    parser = arguments.parser_of("help", description="Print the help of a command.")
    parser.add_argument(
        "word", metavar="COMMAND", nargs="?", choices=[*COMMANDS], help=", ".join(COMMANDS)
    )
    parser.add_argument("subcommand_words", nargs="*", help=argparse.SUPPRESS)
    return parser


def _late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of `codex_acp.cli`, whose module is loaded when the function is called."""

    def call(*args: argparse.Namespace) -> Any:
        from importlib import import_module

        return getattr(import_module(f"codex_acp.cli.{module}"), name)(*args)

    return call


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "the ACP agent on standard input and output; the default",
        "[options]", program_parser, lambda _: _serve(()),
    ),
    "demo": Command(
        "a tour: the real Codex, a scripted model, no account",
        "[options]", arguments.demo_parser, _late("demo", "demo"),
    ),
    "run": Command(
        "send one prompt to any ACP agent, from the terminal or a script",
        "[options] PROMPT", _late("command_arguments", "run_parser"), _late("host", "run"),
    ),
    "chat": Command(
        "talk with any ACP agent in the terminal",
        "[options] [PROMPT]", _late("command_arguments", "chat_parser"), _late("chat", "chat"),
    ),
    "login": Command(
        "log in to OpenAI with Codex's own login",
        "[...]", arguments.login_parser, lambda parsed: _login(None, parsed.arguments),
    ),
    "doctor": Command(
        "find problems, with advice; print settings for editors",
        "[--turn] [--editor NAME]",
        _late("command_arguments", "doctor_parser"), _late("doctor", "doctor"),
    ),
    "transcript": Command(
        "show a transcript, or make a page of it",
        "[options] FILE",
        _late("transcript_command", "transcript_parser"), _late("transcript_command", "transcript"),
    ),
    "play": Command(
        "replay a recording of sessions, and print the differences",
        "[--session N] FILE", arguments.play_parser, _late("small_commands", "play_file"),
    ),
    "fleet": Command(
        "run many tasks from a file, and keep their outcomes",
        "run|show [options]",
        _late("command_arguments", "fleet_parser"), _late("fleet", "run_or_show"),
    ),
    "routes": Command(
        "print the possible routes of every request of Codex",
        "[--json]", arguments.routes_parser, _run_routes,
    ),
    "completions": Command(
        "print the completion script for bash, zsh or fish",
        "SHELL", arguments.completions_parser, _run_completions,
    ),
    "version": Command(
        "print all versions",
        "[--codex PATH]", arguments.version_parser, _late("small_commands", "print_versions"),
    ),
    "help": Command("print the help of a command", "[COMMAND]", help_parser, _run_help),
}  # fmt: skip
"""Every command, in the order of the help."""
