"""The arguments of ``codex-acp-sdk``: what may be written behind each command's word.

Owns every option's name and help; ``run_parser`` makes the parser of what follows ``run``, and so
on. Not loaded when the agent starts without options.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn

from codex_acp.cli.argument_values import add_trust, positive
from codex_acp.cli.listen_arguments import add_listen_arguments
from codex_acp.cli.logs import DEFAULT_LEVEL, LEVEL_VARIABLE, LEVELS, chosen_level

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

PROGRAM: Final = "codex-acp-sdk"

SHELLS: Final = ("bash", "zsh", "fish")

COMPLETIONS_EPILOG: Final = f"""\
bash, in ~/.bashrc:                    eval "$({PROGRAM} completions bash)"
zsh, in ~/.zshrc, behind compinit:     eval "$({PROGRAM} completions zsh)"
fish, once:
 {PROGRAM} completions fish > ~/.config/fish/completions/{PROGRAM}.fish
"""


class Parser(argparse.ArgumentParser):
    """Says where help is to be had after each error."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Argparse's own hides that it cannot be written."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{PROGRAM}: error: {message}\nTry `{self.prog} --help`.\n")


def parser_of(word: str, **settings: Any) -> Parser:
    """A parser of what follows the word of a command, with these settings of argparse."""
    return Parser(prog=f"{PROGRAM} {word}", allow_abbrev=False, **settings)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Word → parser of what follows it, of a command that has commands of its own."""
    below = (a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {word: each for choices in below for word, each in choices.items()}


def serve_parser() -> argparse.ArgumentParser:
    """The parser of the agent, whose word may be left out."""
    parser = Parser(
        prog=PROGRAM,
        description="An Agent Client Protocol (ACP) agent, run by the Codex app-server.\n"
        "Editors start it and speak with it on standard input and output.",
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
        "--protocol",
        choices=("auto", "v1", "v2"),
        default="auto",
        help="the version of ACP that is spoken: v1, v2 (a draft), or the highest that the client "
        "has (auto, the default)",
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
    _add_records(parser)
    add_listen_arguments(parser)
    return parser


def _add_records(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--transcript",
        metavar="FILE",
        help="append every approval, elicitation and decline to FILE as JSON lines",
    )
    parser.add_argument(
        "--transcript-wire",
        action="store_true",
        help="keep every message of both protocols in the transcript too: the whole conversation, "
        "without secrets and without what is typed into forms",
    )
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="append what happens in each session to FILE, without texts of messages, for "
        f"`{PROGRAM} play`",
    )


def routes_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "routes",
        description="Every request that Codex can make of its client: which of approval, "
        "elicitation and decline it can become, and why; then each case with what a person is "
        "shown and the negative reply.",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def run_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.run_arguments import add_run_arguments

    parser = parser_of("run")
    add_run_arguments(parser)
    _add_codex(parser)
    return parser


def fleet_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.fleet_arguments import add_fleet_arguments

    parser = parser_of("fleet")
    add_fleet_arguments(parser)
    return parser


def doctor_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.doctor.arguments import add_doctor_arguments

    parser = parser_of("doctor")
    add_doctor_arguments(parser)
    _add_codex(parser)
    return parser


def transcript_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.transcript_view.arguments import add_transcript_arguments

    parser = parser_of("transcript")
    add_transcript_arguments(parser)
    return parser


def play_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "play",
        description="Handle the events of a record of `--record` once more, and print where this "
        "version acts otherwise than the one that recorded. Exit code 0: nowhere, 1: somewhere, "
        "2: the file cannot be played.",
    )
    parser.add_argument("file", metavar="FILE", help="a record")
    parser.add_argument(
        "--session",
        metavar="N",
        type=_positive,
        help="print a record of session N alone instead, with short names and without texts",
    )
    return parser


def chat_parser() -> argparse.ArgumentParser:
    from codex_acp.cli.chat_arguments import add_chat_arguments

    parser = parser_of("chat")
    add_chat_arguments(parser)
    _add_codex(parser)
    return parser


def demo_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "demo",
        description="A tour of what a client can show: the real Codex with a scripted model on "
        "this machine and a throw-away home; streamed text, commands that are allowed and refused, "
        "a diff, a form, a page, and what is declined. Needs no account and no network. Exit code "
        "0 if all went as the script says.",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before starting")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--ask", action="store_true", help="answer the questions of the tour yourself")
    how.add_argument(
        "--agent",
        action="store_true",
        help="serve this Codex and its scripted model to an editor, on standard input and output",
    )
    parser.add_argument(
        "--wire", action="store_true", help="show each ACP line as it is sent and received"
    )
    _add_codex(parser)
    return parser


def login_parser() -> argparse.ArgumentParser:
    """Return the parser that describes ``login``; Codex itself reads what follows it."""
    parser = parser_of(
        "login",
        usage="%(prog)s [arguments of `codex login`]",
        description="Log in to OpenAI with Codex's own login, in this terminal. What follows goes "
        "to `codex login`, --help too.",
        add_help=False,
    )
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    return parser


def version_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "version",
        description="Print this package's version, the schemas' and the Codex binary's. Exit code "
        "1 if there is a Codex that cannot be used.",
    )
    _add_codex(parser)
    return parser


def completions_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "completions",
        description="Print the script that completes this command in a shell.",
        epilog=COMPLETIONS_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
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
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return text


def _positive(text: str) -> int:
    return positive(text, " of bytes")


def _level(text: str) -> str:
    try:
        return chosen_level(text)
    except ValueError:
        message = f"{text!r} is not a log level; use one of {', '.join(LEVELS)}"
        raise argparse.ArgumentTypeError(message) from None
