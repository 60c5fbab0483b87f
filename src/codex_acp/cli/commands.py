"""The commands of ``codex-acp-sdk``: the table, and what each starts.

From the table are made the program's help, its completions and its reference. Not loaded when the
agent starts without options.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.cli import arguments
from codex_acp.cli.argument_values import parsed_as
from codex_acp.cli.arguments import PROGRAM, Parser
from codex_acp.cli.listen_arguments import network_options
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codex_acp.adapter.network.listen import NetworkOptions

ENVIRONMENT: Final = """\
environment:
  CODEX_PATH            the Codex binary, where --codex does not name one
  CODEX_ACP_LOG         the log level, where --log-level does not name one
  CODEX_ACP_TRANSCRIPT  the transcript, where --transcript does not name one
  CODEX_ACP_TOKEN       the token of --listen, where --token-file names none
  CODEX_HOME            Codex's own: its configuration, login and sessions

read as by @agentclientprotocol/codex-acp:
  CODEX_CONFIG          a JSON object of settings; -c goes before it
  MODEL_PROVIDER        the model provider
  INITIAL_AGENT_MODE    the mode in which a new session begins
  DEFAULT_AUTH_REQUEST  the login to make when Codex needs one
  CODEX_API_KEY, OPENAI_API_KEY
                        the key of the login api-key, the first that is set
  NO_BROWSER            if set, logins that need a browser here are not offered
  APP_SERVER_LOGS       a directory for the log, where --log-file names none
"""


class Command(NamedTuple):
    """One command: what it does, the parser of what follows its word, and what runs it."""

    summary: str
    """One line of the program's help."""
    usage: str
    """What may follow the word, for the program's usage."""
    parser: Callable[[], argparse.ArgumentParser]
    run: Callable[[Sequence[str]], int]


def run(argv: Sequence[str]) -> int:
    """Parse and run; the exit code. Raises SystemExit for ``--help`` (0) and errors (2)."""
    first = argv[0] if argv else "serve"
    if first in COMMANDS and first != "serve":
        return COMMANDS[first].run(argv[1:])
    if first not in COMMANDS and not first.startswith("-"):
        program_parser().error(_no_command(first))
    return _run_serve(argv)


def _no_command(word: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word.lower(), COMMANDS, n=1)
    meant = f"did you mean {near[0]!r}?" if near else f"use {', '.join(COMMANDS)}"
    return f"there is no command {word!r}; {meant}"


def _run_serve(argv: Sequence[str]) -> int:
    parser = program_parser()
    options, unknown = parser.parse_known_args(argv)
    # A client appends it to the command it knows, which may hold options and the word serve.
    if options.command == "login" or (options.command == "serve" and unknown[:1] == ["login"]):
        more = unknown if options.command == "login" else unknown[1:]
        return _login(options.codex, [*_settings(options.config), *more])
    if unknown:  # before the command: the value of an unknown option reads as one
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    word = options.command
    if word not in COMMANDS:
        parser.error(_no_command(word))
    if options.version or word == "version":
        return _print_version(options.codex)
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

    settings = [*_settings(options.config), *trust_arguments(options.trust)]
    return serve(
        LaunchOptions(codex=options.codex, args=settings),
        line_limit=options.line_limit,
        log_level=options.log_level,
        log_file=options.log_file,
        transcript=options.transcript,
        protocol=options.protocol,
        transcript_wire=options.transcript_wire,
        network=_network(parser, options),
    )


def _network(parser: argparse.ArgumentParser, options: argparse.Namespace) -> NetworkOptions | None:
    try:
        return network_options(options)
    except MisuseError as error:
        parser.error(str(error))


def _settings(config: Sequence[str]) -> list[str]:
    return [word for setting in config for word in ("-c", setting)]


def _print_version(codex: str | None) -> int:
    from codex_acp.cli.version import version_text

    text, code = version_text(codex)
    sys.stdout.write(text)
    return code


def _run_version(argv: Sequence[str]) -> int:
    return _print_version(arguments.version_parser().parse_args(argv).codex)


def _run_help(argv: Sequence[str]) -> int:
    options = help_parser().parse_args(argv)
    parser = program_parser() if options.word is None else COMMANDS[options.word].parser()
    for word in options.below:
        below = arguments.subcommands(parser)
        if word not in below:
            parser.error(f"{options.word} has no command {word!r}")
        parser = below[word]
    sys.stdout.write(parser.format_help())
    return 0


def _run_run(argv: Sequence[str]) -> int:
    from codex_acp.cli.run_arguments import RunOptions

    options = parsed_as(RunOptions, arguments.run_parser().parse_args(argv))
    from codex_acp.cli.run import run as run_prompt

    return run_prompt(options)


def _run_fleet(argv: Sequence[str]) -> int:
    parsed = arguments.fleet_parser().parse_args(argv)
    if parsed.action == "show":
        from codex_acp.cli.fleet_show import show

        return show(parsed.out, as_json=parsed.json)
    from codex_acp.cli.fleet import run as run_fleet
    from codex_acp.cli.fleet_arguments import FleetOptions

    return run_fleet(parsed_as(FleetOptions, parsed))


def _run_chat(argv: Sequence[str]) -> int:
    from codex_acp.cli.chat_arguments import ChatOptions

    options = parsed_as(ChatOptions, arguments.chat_parser().parse_args(argv))
    from codex_acp.cli.chat import chat

    return chat(options)


def _run_login(argv: Sequence[str]) -> int:
    return _login(None, argv)


def _login(codex: str | None, argv: Sequence[str]) -> int:
    from codex_acp.cli.login import login

    return login(codex, argv)


def _run_routes(argv: Sequence[str]) -> int:
    options = arguments.routes_parser().parse_args(argv)
    from codex_acp.routing.catalogue import as_json, as_markdown, catalogue

    sys.stdout.write(as_json(catalogue()) if options.json else as_markdown(catalogue()))
    return 0


def _run_demo(argv: Sequence[str]) -> int:
    options = arguments.demo_parser().parse_args(argv)
    from codex_acp.cli.demo import demo, demo_agent

    if options.agent:
        return demo_agent(codex=options.codex)
    return demo(codex=options.codex, yes=options.yes, wire=options.wire, asks=options.ask)


def _run_doctor(argv: Sequence[str]) -> int:
    from codex_acp.cli.doctor.arguments import DoctorOptions

    options = parsed_as(DoctorOptions, arguments.doctor_parser().parse_args(argv))
    from codex_acp.cli.doctor.command import doctor

    return doctor(options)


def _run_transcript(argv: Sequence[str]) -> int:
    from codex_acp.cli.transcript_view.arguments import transcript_options

    options = transcript_options(arguments.transcript_parser().parse_args(argv))
    from codex_acp.cli.transcript_view.command import transcript

    return transcript(options)


def _run_completions(argv: Sequence[str]) -> int:
    shell = arguments.completions_parser().parse_args(argv).shell
    from codex_acp.cli.completions import SCRIPTS

    parsers = {word: (command.summary, command.parser()) for word, command in COMMANDS.items()}
    sys.stdout.write(SCRIPTS[shell](PROGRAM, parsers))
    return 0


def program_parser() -> argparse.ArgumentParser:
    """The parser of the agent, whose word may be left out, with the help of the whole program."""
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
            f"`{PROGRAM} help COMMAND` tells what each takes; this is the agent's:",
        )
    )
    parser.epilog = ENVIRONMENT
    return parser


def help_parser() -> argparse.ArgumentParser:
    """The parser of what follows ``help``."""
    parser = Parser(
        prog=f"{PROGRAM} help", description="Print the help of a command.", allow_abbrev=False
    )
    parser.add_argument(
        "word", metavar="COMMAND", nargs="?", choices=[*COMMANDS], help=", ".join(COMMANDS)
    )
    parser.add_argument("below", nargs="*", help=argparse.SUPPRESS)
    return parser


COMMANDS: Final[Mapping[str, Command]] = {
    "serve": Command(
        "the ACP agent on standard input and output; the default",
        "[options]", program_parser, _run_serve,
    ),
    "demo": Command(
        "a tour: the real Codex, a scripted model, no account",
        "[options]", arguments.demo_parser, _run_demo,
    ),
    "run": Command(
        "send one prompt to any ACP agent, from the terminal or a script",
        "[options] PROMPT", arguments.run_parser, _run_run,
    ),
    "chat": Command(
        "talk with any ACP agent in the terminal",
        "[options] [PROMPT]", arguments.chat_parser, _run_chat,
    ),
    "login": Command(
        "log in to OpenAI with Codex's own login",
        "[...]", arguments.login_parser, _run_login,
    ),
    "doctor": Command(
        "say what is wrong here, and what to do; settings for editors",
        "[--turn] [--editor NAME]", arguments.doctor_parser, _run_doctor,
    ),
    "transcript": Command(
        "show a transcript, or make a page of it",
        "[options] FILE", arguments.transcript_parser, _run_transcript,
    ),
    "fleet": Command(
        "run many tasks from a file, and keep what comes of each",
        "run|show [options]", arguments.fleet_parser, _run_fleet,
    ),
    "routes": Command(
        "print what becomes of every request that Codex can make",
        "[--json]", arguments.routes_parser, _run_routes,
    ),
    "completions": Command(
        "print what completes this command in bash, zsh or fish",
        "SHELL", arguments.completions_parser, _run_completions,
    ),
    "version": Command(
        "print all versions", "[--codex PATH]", arguments.version_parser, _run_version
    ),
    "help": Command("print the help of a command", "[COMMAND]", help_parser, _run_help),
}  # fmt: skip
"""Every command, in the order of the help."""
