"""Make the parser of each command's arguments, by a function for each command.

Parsers that take longer to load are elsewhere: for ``run``, ``chat``, ``fleet`` and ``doctor`` in
`codex_acp.cli.command_arguments`, for ``transcript`` in `codex_acp.cli.transcript_command`. This
module is not loaded when the agent starts without options.
"""

from __future__ import annotations

import argparse
import os
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NoReturn

from codex_acp.cli.logs import DEFAULT_LEVEL, LEVEL_VARIABLE, LEVELS, chosen_level
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from codex_acp.adapter.network.access_control import Tokens
    from codex_acp.adapter.network.listen import NetworkOptions

PROGRAM: Final = "codex-acp-sdk"
SHELLS: Final = ("bash", "zsh", "fish")
COMPLETIONS_EPILOG: Final = f"""\
bash, in ~/.bashrc:                    eval "$({PROGRAM} completions bash)"
zsh, in ~/.zshrc, behind compinit:     eval "$({PROGRAM} completions zsh)"
fish, once:
 {PROGRAM} completions fish > ~/.config/fish/completions/{PROGRAM}.fish
"""


class _Help(argparse.HelpFormatter):
    """Breaks no word at a hyphen, and does not wrap a text of several lines."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Says how to get help after each error."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Help, **settings)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Write a message. Raises OSError, which argparse's own method hides."""
        if message:
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        from codex_acp.cli.terminal import error_text

        has_prompt = any(action.dest == "prompt" for action in self._actions)
        # The words after "unrecognized arguments:" are no options, but more words of the prompt.
        if has_prompt and message.startswith("unrecognized") and " -" not in message:
            message += "; put a prompt of several words in quotes"
        self.exit(2, error_text(f"{PROGRAM}: error: {message}") + f"Try `{self.prog} --help`.\n")


def parser_of(word: str, **settings: Any) -> Parser:
    """Return a parser for the command ``word``; ``settings`` as for ArgumentParser."""
    return Parser(prog=f"{PROGRAM} {word}", allow_abbrev=False, **settings)


def add_flag(parser: argparse._ActionsContainer, name: str, help_text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=help_text)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each subcommand of a command, by the subcommand's word."""
    return {
        word: subparser
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for word, subparser in action.choices.items()
    }


def serve_parser() -> argparse.ArgumentParser:
    """Return the parser of ``serve``, the command that runs if none is named."""
    parser = Parser(
        prog=PROGRAM,
        description="An Agent Client Protocol (ACP) agent that uses the Codex app-server.\n"
        "Editors start it and speak with it on standard input and output.",
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", default="serve", help=argparse.SUPPRESS)
    add_flag(parser, "--version", "print all versions, and exit")
    add_codex(parser)
    parser.add_argument(
        "-c", "--config", metavar="KEY=VALUE", action="append", default=[], type=_parse_setting,
        help="a setting passed on to Codex, e.g. -c model=gpt-5.5; may be repeated",
    )  # fmt: skip
    add_trust(parser)
    parser.add_argument(
        "--line-limit", metavar="BYTES", type=lambda text: positive(text, " of bytes"),
        help="the largest message accepted from the client (default: 64 MiB)",
    )  # fmt: skip
    parser.add_argument(
        "--protocol", choices=("auto", "v1", "v2"), default="auto",
        help="the version of ACP: v1, v2 (a draft), or the client's highest version (auto, the "
        "default)",
    )  # fmt: skip
    parser.add_argument(
        "--log-file", metavar="FILE", help="append the log to FILE (default: standard error)"
    )
    parser.add_argument(
        "--log-level", metavar="LEVEL", type=_parse_level,
        help=f"{', '.join(LEVELS)} (default: {LEVEL_VARIABLE}, else {DEFAULT_LEVEL})",
    )  # fmt: skip
    parser.add_argument(
        "--transcript",
        metavar="FILE",
        help="append every approval, elicitation and decline to FILE as JSON lines",
    )
    add_flag(
        parser,
        "--transcript-wire",
        "keep every message of both protocols in the transcript, too: the whole conversation, "
        "without secrets and without the answers to forms",
    )
    parser.add_argument(
        "--record", metavar="FILE",
        help="append the events of each session to FILE, without the texts of messages, for "
        f"`{PROGRAM} play`",
    )  # fmt: skip
    add_listen_arguments(parser)
    return parser


def routes_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "routes",
        description="Print every request that Codex can send to its client, with its possible "
        "routes (approval, elicitation, decline) and the reason; then each case with the person's "
        "view and the negative reply.",
    )
    add_flag(parser, "--json", "print JSON")
    return parser


def play_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "play",
        description="Replay a recording of `--record`, and print the events for which this version "
        "decides differently from the version that recorded them. Exit code 0: no difference, 1: "
        "differences, 2: the file cannot be played.",
    )
    parser.add_argument("file", metavar="FILE", help="a recording")
    parser.add_argument(
        "--session", metavar="N", type=positive,
        help="only print the recording of session N, with short names and without texts",
    )  # fmt: skip
    return parser


def demo_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "demo",
        description="A tour of a client's features: the real Codex with a scripted model on this "
        "machine and a temporary home; streamed text, allowed and refused commands, a diff, a "
        "form, a page, and a declined request. Needs no account and no network. Exit code 0 if "
        "every check passed.",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before starting")
    how = parser.add_mutually_exclusive_group()
    add_flag(how, "--ask", "answer the questions of the tour yourself")
    add_flag(
        how,
        "--agent",
        "serve this Codex and its scripted model to an editor, on standard input and output",
    )
    add_flag(parser, "--wire", "show each ACP line as it is sent and received")
    add_codex(parser)
    return parser


def login_parser() -> argparse.ArgumentParser:
    """Return the parser for the help of ``login``; Codex itself parses the arguments."""
    parser = parser_of(
        "login",
        usage="%(prog)s [arguments of `codex login`]",
        description="Log in to OpenAI with Codex's own login, in this terminal. `codex login` gets "
        "all further arguments, --help too.",
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
    add_codex(parser)
    return parser


def completions_parser() -> argparse.ArgumentParser:
    parser = parser_of(
        "completions",
        description="Print the script that completes this command in a shell.",
        epilog=COMPLETIONS_EPILOG,
    )
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    return parser


def add_codex(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--codex", metavar="PATH", type=_parse_path,
        help="the Codex binary (default: CODEX_PATH, the wheel openai-codex-cli-bin, PATH)",
    )  # fmt: skip


def _parse_path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return text


def _parse_setting(text: str) -> str:
    key, equals, _value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return text


def _parse_level(text: str) -> str:
    try:
        return chosen_level(text)
    except ValueError:
        message = f"{text!r} is not a log level; use one of {', '.join(LEVELS)}"
        raise argparse.ArgumentTypeError(message) from None


def positive(text: str, unit: str = "") -> int:
    """Read a positive whole number; ``unit`` ends the error message."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number{unit}")
    return number


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add ``--trust DIR``, which is parsed to the real path, because Codex compares real paths."""
    parser.add_argument(
        "--trust", metavar="DIR", action="append", default=[], type=_parse_directory,
        help="a repository that you trust: Codex uses its configuration, hooks and MCP servers "
        "while this command runs; nothing is written; may be repeated",
    )  # fmt: skip


def _parse_directory(text: str) -> str:
    if not os.path.isdir(text):  # noqa: PTH112
        raise argparse.ArgumentTypeError(f"{text!r} is no directory")
    return os.path.realpath(text)


_NEEDS_LISTEN: Final = (
    "token_file", "no_token", "expose", "allow_origin", "allow_host", "tls_cert", "tls_key",
    "codex_per_connection", "max_connections", "max_sessions", "max_owner_connections",
    "max_owner_sessions", "owners", "keep",
)  # fmt: skip
_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MAX_KEEP: Final = 30 * 86400
"""Longest value of ``--keep``, in seconds."""


def add_listen_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("for clients of the network")
    group.add_argument(
        "--listen", metavar="URL",
        help="accept clients over HTTP and websockets, e.g. at http://127.0.0.1:8765/acp, or over "
        "websockets alone at ws://…, in place of standard input; port 0: any free port, printed on "
        "standard error",
    )  # fmt: skip
    group.add_argument(
        "--token-file", metavar="FILE",
        help="the tokens of clients, one on each line; only you may read FILE (chmod 600); "
        "or set CODEX_ACP_TOKEN to a token",
    )  # fmt: skip
    add_flag(group, "--no-token", "let in everybody on this machine (loopback only)")
    add_flag(
        group,
        "--expose",
        "allow an address that other machines can reach; without TLS tokens travel in the clear",
    )
    group.add_argument("--tls-cert", metavar="FILE", help="the certificate (PEM), for TLS")
    group.add_argument("--tls-key", metavar="FILE", help="its key, if FILE of --tls-cert lacks it")
    group.add_argument(
        "--allow-origin", metavar="ORIGIN", action="append", default=[],
        help="let in pages of this origin, e.g. https://ide.example; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[],
        help="a name under which clients know this machine; may be repeated",
    )  # fmt: skip
    add_flag(group, "--codex-per-connection", "start a Codex for each connection, not one for all")
    group.add_argument(
        "--owners",
        metavar="FILE",
        help="keep the owner of each session in FILE, if the tokens have several names",
    )
    group.add_argument(
        "--keep", metavar="TIME", type=_parse_seconds,
        help="keep a session and its questions for TIME after its connection broke: e.g. 8h, 30m, "
        "90s (default: end the session, and answer its questions with no)",
    )  # fmt: skip
    limits = (
        ("connections", "connections at once (default: 64)"),
        ("sessions", "open sessions at once (default: 256)"),
        ("owner-connections", "connections of one owner at once (default: an equal share)"),
        ("owner-sessions", "open sessions of one owner at once (default: an equal share)"),
    )
    for name, help_text in limits:
        group.add_argument(f"--max-{name}", metavar="N", type=positive, help=help_text)


def network_options(parsed: argparse.Namespace) -> NetworkOptions | None:
    """Return the options for network clients; None without ``--listen``. Raises MisuseError."""
    if parsed.listen is None:
        for name in _NEEDS_LISTEN:
            if getattr(parsed, name):
                raise MisuseError(f"--{name.replace('_', '-')} is for --listen")
        return None
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.listen import Address, NetworkOptions

    defaults = Limits()
    limits = Limits(
        connections=parsed.max_connections or defaults.connections,
        sessions=parsed.max_sessions or defaults.sessions,
        owner_connections=parsed.max_owner_connections,
        owner_sessions=parsed.max_owner_sessions,
        message_bytes=parsed.line_limit or defaults.message_bytes,
        keep_seconds=parsed.keep or defaults.keep_seconds,
    )
    options = NetworkOptions(
        Address.parse(parsed.listen),
        _read_tokens(parsed.token_file, no_token=parsed.no_token),
        limits,
        origins=tuple(parsed.allow_origin), hosts=tuple(parsed.allow_host),
        certificate=parsed.tls_cert, key=parsed.tls_key, owners=parsed.owners,
        shared=not parsed.codex_per_connection, any_interface=parsed.expose,
    )  # fmt: skip
    options.check()
    return options


def _read_tokens(file: str | None, *, no_token: bool) -> Tokens:
    from codex_acp.adapter.network import access_control
    from codex_acp.cli.process import TOKEN_VARIABLE, take_token

    token = take_token()  # always, because this removes the token from the environment
    if no_token:
        if file is not None:
            raise MisuseError("--no-token and --token-file exclude each other")
        return access_control.no_token()
    if file is not None:
        return access_control.Tokens(current=access_control.TokenFile(file).current)
    if token:
        return access_control.fixed_token(token, TOKEN_VARIABLE)
    raise MisuseError(
        "clients of the network need a token: --token-file FILE, or the environment variable "
        f"{TOKEN_VARIABLE}; on this machine alone --no-token does without"
    )


def _parse_seconds(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNIT_SECONDS else (text, "s")
    try:
        seconds = float(number) * _UNIT_SECONDS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_KEEP:
        message = f"{text!r} is no time like 8h, 30m or 90s, of at most 30 days"
        raise argparse.ArgumentTypeError(message)
    return seconds
