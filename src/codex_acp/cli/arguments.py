"""The arguments of ``codex-acp-sdk``: what may be written, and which command it starts.

Owns every option's name and help. Not loaded when the agent starts without options.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from codex_acp.cli.directories import add_trust
from codex_acp.cli.listen_arguments import add_listen_arguments, network_options
from codex_acp.cli.logs import DEFAULT_LEVEL, LEVEL_VARIABLE, LEVELS, chosen_level
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codex_acp.adapter.network.listen import NetworkOptions

__all__ = ["demo_parser", "routes_parser", "run", "run_parser", "serve_parser"]

PROGRAM: Final = "codex-acp-sdk"

COMMANDS: Final = ("serve", "demo", "login", "routes", "run")

EPILOG: Final = """\
commands:
  serve    the ACP agent on standard input and output (also without the word)
  demo     send one prompt through the real Codex with a scripted model, and show it;
           see `codex-acp-sdk demo --help`
  login    log in to OpenAI with Codex's own login; what follows goes to `codex login`
  routes   print what becomes of every request that Codex can make (--json for programs)
  run      send one prompt to any ACP agent, from the terminal or a script;
           see `codex-acp-sdk run --help`

environment:
  CODEX_PATH     the Codex binary, where --codex does not name one
  CODEX_ACP_LOG  the log level, where --log-level does not name one
  CODEX_ACP_TRANSCRIPT  the transcript, where --transcript does not name one
  CODEX_ACP_TOKEN  the token of --listen, where --token-file does not name some
  CODEX_HOME     Codex's own: its configuration, login and sessions
"""


class _Parser(argparse.ArgumentParser):
    """Says where help is to be had after each error."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{PROGRAM}: error: {message}\nTry `{self.prog} --help`.\n")


def run(argv: Sequence[str]) -> int:
    """Parse and run; the exit code. Raises SystemExit for ``--help`` (0) and errors (2)."""
    if argv and argv[0] == "demo":
        return _run_demo(argv[1:])
    if argv and argv[0] == "routes":
        return _run_routes(argv[1:])
    if argv and argv[0] == "run":
        return _run_run(argv[1:])
    if argv and argv[0] == "login":
        return _run_login(None, argv[1:])
    parser = serve_parser()
    options, unknown = parser.parse_known_args(argv)
    # A client appends it to the command it knows, which may hold options and the word serve.
    if options.command == "login" or (options.command == "serve" and unknown[:1] == ["login"]):
        more = unknown if options.command == "login" else unknown[1:]
        return _run_login(options.codex, [*_settings(options.config), *more])
    if unknown:  # before the command: the value of an unknown option reads as one
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.command not in COMMANDS:
        parser.error(f"there is no command {options.command!r}; use {' or '.join(COMMANDS)}")
    if options.version:
        from codex_acp.cli.version import version_text

        text, code = version_text(options.codex)
        sys.stdout.write(text)
        return code
    if options.command == "demo":
        parser.error("demo has options of its own; write them behind it: demo [options]")
    if options.command == "routes":
        parser.error("routes has options of its own; write them behind it: routes [options]")
    if options.command == "run":
        parser.error("run has options of its own; write them behind it: run [options] PROMPT")
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
        network=_network(parser, options),
    )


def _network(parser: argparse.ArgumentParser, options: argparse.Namespace) -> NetworkOptions | None:
    try:
        return network_options(options)
    except MisuseError as error:
        parser.error(str(error))


def _run_run(argv: Sequence[str]) -> int:
    from codex_acp.cli.run_arguments import run_options

    options = run_options(run_parser().parse_args(argv))
    from codex_acp.cli.run import run as run_prompt

    return run_prompt(options)


def _run_login(codex: str | None, argv: Sequence[str]) -> int:
    from codex_acp.cli.login import login

    return login(codex, argv)


def _settings(config: Sequence[str]) -> list[str]:
    return [word for setting in config for word in ("-c", setting)]


def _run_routes(argv: Sequence[str]) -> int:
    options = routes_parser().parse_args(argv)
    from codex_acp.routing.catalogue import as_json, as_markdown, catalogue

    sys.stdout.write(as_json(catalogue()) if options.json else as_markdown(catalogue()))
    return 0


def _run_demo(argv: Sequence[str]) -> int:
    options = demo_parser().parse_args(argv)
    from codex_acp.cli.demo import demo

    return demo(codex=options.codex, yes=options.yes, wire=options.wire)


def serve_parser() -> argparse.ArgumentParser:
    """The parser of everything but ``demo`` and ``routes``."""
    parser = _Parser(
        prog=PROGRAM,
        usage="%(prog)s [serve] [options]\n       %(prog)s demo [options]\n"
        "       %(prog)s routes [--json]\n       %(prog)s run [options] PROMPT\n"
        "       %(prog)s --version",
        description="An Agent Client Protocol (ACP) agent, run by the Codex app-server.\n"
        "Editors start it and speak with it on standard input and output.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", default="serve", help=argparse.SUPPRESS)
    parser.add_argument("--version", action="store_true", help="print all versions, and exit")
    _add_codex(parser)
    parser.add_argument(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=_setting,
        help="a setting passed on to Codex, e.g. -c model=gpt-5.5; may be repeated",
    )
    add_trust(parser)
    parser.add_argument(
        "--line-limit",
        metavar="BYTES",
        type=_positive,
        help="the largest message accepted from the client (default: 64 MiB)",
    )
    parser.add_argument(
        "--log-file", metavar="FILE", help="append the log to FILE (default: standard error)"
    )
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        type=_level,
        help=f"{', '.join(LEVELS)} (default: {LEVEL_VARIABLE}, else {DEFAULT_LEVEL})",
    )
    parser.add_argument(
        "--transcript",
        metavar="FILE",
        help="append every approval, elicitation and decline to FILE as JSON lines",
    )
    add_listen_arguments(parser)
    return parser


def routes_parser() -> argparse.ArgumentParser:
    """The parser of what follows ``routes``."""
    parser = _Parser(
        prog=f"{PROGRAM} routes",
        description="Every request that Codex can make of its client: whether it becomes an "
        "approval, an elicitation or a decline, what a person is shown, and the negative reply.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run_parser() -> argparse.ArgumentParser:
    """The parser of what follows ``run``."""
    from codex_acp.cli.run_arguments import add_run_arguments

    parser = _Parser(prog=f"{PROGRAM} run", allow_abbrev=False)
    add_run_arguments(parser)
    return parser


def demo_parser() -> argparse.ArgumentParser:
    """The parser of what follows ``demo``."""
    parser = _Parser(
        prog=f"{PROGRAM} demo",
        description="Start the agent as an editor would, with the real Codex, a scripted model "
        "on this machine and a throw-away home; send one prompt and show what comes back. "
        "Needs no account and no network. Exit code 0 if all went as the script says.",
        allow_abbrev=False,
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before starting")
    parser.add_argument(
        "--wire", action="store_true", help="show each ACP line as it is sent and received"
    )
    _add_codex(parser)
    return parser


def _add_codex(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--codex",
        metavar="PATH",
        type=_not_empty,
        help="the Codex binary (default: CODEX_PATH, the wheel openai-codex-cli-bin, PATH)",
    )


def _not_empty(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return text


def _setting(text: str) -> str:
    key, equals, _value = text.partition("=")
    if not equals or not key.strip():
        message = f"{text!r} is not of the form KEY=VALUE"
        raise argparse.ArgumentTypeError(message)
    return text


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        message = f"{text!r} is not a positive whole number of bytes"
        raise argparse.ArgumentTypeError(message)
    return number


def _level(text: str) -> str:
    try:
        return chosen_level(text)
    except ValueError:
        message = f"{text!r} is not a log level; use one of {', '.join(LEVELS)}"
        raise argparse.ArgumentTypeError(message) from None
