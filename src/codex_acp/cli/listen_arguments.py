"""The arguments of ``codex-acp-sdk serve --listen``, and what they come to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from codex_acp.cli.argument_values import positive
from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    from codex_acp.adapter.network.listen import NetworkOptions
    from codex_acp.adapter.network.tokens import Tokens

_NEEDS_LISTEN: Final = (
    "token_file", "no_token", "expose", "allow_origin", "allow_host", "tls_cert", "tls_key",
    "codex_per_connection", "max_connections", "max_sessions", "max_owner_connections",
    "max_owner_sessions", "owners", "keep",
)  # fmt: skip


_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

MAX_KEEP: Final = 30 * 86400
"""Seconds: nobody remembers a question for longer."""


def add_listen_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything about clients of the network."""
    group = parser.add_argument_group("for clients of the network")
    group.add_argument(
        "--listen",
        metavar="URL",
        help="accept clients over HTTP and websockets, e.g. at http://127.0.0.1:8765/acp, or over "
        "websockets alone at ws://…, in place of standard input; port 0: any that is free, said on "
        "standard error",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="the tokens of clients, one a line, for you alone (chmod 600); "
        "or set CODEX_ACP_TOKEN to one",
    )
    group.add_argument(
        "--no-token", action="store_true", help="let in whoever is on this machine (loopback only)"
    )
    group.add_argument(
        "--expose",
        action="store_true",
        help="allow an address that other machines can reach; "
        "without TLS tokens travel in the clear",
    )
    group.add_argument("--tls-cert", metavar="FILE", help="the certificate (PEM), for TLS")
    group.add_argument("--tls-key", metavar="FILE", help="its key, if that is in another file")
    group.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        default=[],
        help="let in pages of this origin, e.g. https://ide.example; may be repeated",
    )
    group.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name under which clients know this machine; may be repeated",
    )
    group.add_argument(
        "--codex-per-connection",
        action="store_true",
        help="start a Codex for each connection, in place of one for all",
    )
    group.add_argument(
        "--owners",
        metavar="FILE",
        help="where to remember whose sessions are, if the tokens have several names",
    )
    group.add_argument(
        "--keep",
        metavar="TIME",
        type=_seconds,
        help="keep a session whose connection breaks, with its questions, for so long: e.g. 8h, "
        "30m, 90s (default: it ends, and its questions are answered no)",
    )
    _add_limits(group)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    limits = (
        ("connections", "connections at once (default: 64)"),
        ("sessions", "open sessions at once (default: 256)"),
        ("owner-connections", "of them, for each name of the tokens (default: an equal share)"),
        ("owner-sessions", "of them, for each name of the tokens (default: an equal share)"),
    )
    for name, said in limits:
        group.add_argument(f"--max-{name}", metavar="N", type=positive, help=said)


def network_options(parsed: argparse.Namespace) -> NetworkOptions | None:
    """The parsed options; None if it is not to listen. Raises MisuseError."""
    if parsed.listen is None:
        for name in _NEEDS_LISTEN:
            if getattr(parsed, name):
                raise MisuseError(f"--{name.replace('_', '-')} is for --listen")
        return None
    from codex_acp.adapter.network.limits import Limits
    from codex_acp.adapter.network.listen import Address, NetworkOptions

    usual = Limits()
    limits = Limits(
        connections=parsed.max_connections or usual.connections,
        sessions=parsed.max_sessions or usual.sessions,
        owner_connections=parsed.max_owner_connections,
        owner_sessions=parsed.max_owner_sessions,
        message_bytes=parsed.line_limit or usual.message_bytes,
        keep_seconds=parsed.keep or usual.keep_seconds,
    )
    options = NetworkOptions(
        Address.parse(parsed.listen),
        _tokens(parsed.token_file, no_token=parsed.no_token),
        limits,
        origins=tuple(parsed.allow_origin),
        hosts=tuple(parsed.allow_host),
        certificate=parsed.tls_cert,
        key=parsed.tls_key,
        shared=not parsed.codex_per_connection,
        owners=parsed.owners,
        any_interface=parsed.expose,
    )
    options.check()
    return options


def _tokens(file: str | None, *, no_token: bool) -> Tokens:
    from codex_acp.adapter.network.tokens import TOKEN_VARIABLE, TokenFile, Tokens, fixed_token
    from codex_acp.adapter.network.tokens import no_token as nobody_needs_one
    from codex_acp.cli.own_secrets import take_token

    token = take_token()
    if no_token:
        if file is not None:
            raise MisuseError("--no-token and --token-file exclude each other")
        return nobody_needs_one()
    if file is not None:
        return Tokens(TokenFile(file).current)
    if token:
        return fixed_token(token)
    raise MisuseError(
        "clients of the network need a token: --token-file FILE, or the environment variable "
        f"{TOKEN_VARIABLE}; on this machine alone --no-token does without"
    )


def _seconds(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number) * _UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_KEEP:
        message = f"{text!r} is no time like 8h, 30m or 90s, of at most 30 days"
        raise argparse.ArgumentTypeError(message)
    return seconds
