"""Serve ACP clients on stdin and stdout or over the network: ``codex-acp-sdk [serve]``.

Codex is spawned before this module imports anything that takes time.
"""

from __future__ import annotations

import gc
import os
import sys

from codex_acp._pydantic import leave_pydantic_out
from codex_acp.cli.logs import chosen_level, open_log, start_logging
from codex_acp.cli.process import complain
from codex_acp.codex.connection.launch import LaunchOptions, spawn_app_server
from codex_acp.errors import LaunchError, MisuseError, TransportError
from codex_acp.transport.descriptors import read_now

TYPE_CHECKING = False  # importing typing would delay the start of Codex
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from codex_acp.adapter.network.listen import NetworkOptions
    from codex_acp.adapter.session_defaults import SessionDefaults
    from codex_acp.transcript.events import Entry
    from codex_acp.transcript.log import Transcript
    from codex_acp.transport.child import ChildProcess

PROGRAM = "codex-acp-sdk"
FAILED = 1
"""Exit code when standard input or output cannot be used."""
BAD_ARGUMENTS = 2
"""Exit code for invalid options; the parser exits with it, too."""
PROTOCOLS: dict[str, tuple[int, ...]] = {"auto": (1, 2), "v1": (1,), "v2": (2,)}
"""``--protocol`` → the versions of ACP that the agent offers."""
ADAPTER_VARIABLES = frozenset({
    "APP_SERVER_LOGS", "CODEX_CONFIG", "DEFAULT_AUTH_REQUEST", "INITIAL_AGENT_MODE",
    "MODEL_PROVIDER",
})  # fmt: skip
"""Variables of `codex_acp.cli.adapter_variables`: the module is loaded only if one is set."""
TRANSCRIPT_VARIABLE = "CODEX_ACP_TRANSCRIPT"
"""Variable that `transcript_path` reads: the path of the transcript."""
TERMINAL_HINT = (
    "codex-acp-sdk: this is an ACP agent, which an editor starts and speaks with.\n"
    "Try `codex-acp-sdk demo`, `chat` or `help`; Ctrl-D ends it."
)
"""Message for a person who starts the agent in a terminal."""


def serve(
    options: LaunchOptions,
    *,
    line_limit: int | None = None,
    log_level: str | None = None,
    log_file: str | None = None,
    transcript: str | None = None,
    transcript_wire: bool = False,
    record: str | None = None,
    network: NetworkOptions | None = None,
    protocol: str = "auto",
) -> int:
    """Serve until stdin ends, or with ``network`` until a signal; return the exit code.

    ``line_limit`` is in bytes, None for the default. ``transcript`` is the path of the transcript,
    None for that of ``CODEX_ACP_TRANSCRIPT``; ``transcript_wire``: also write the messages of both
    protocols to the transcript. ``record`` is the path for the events of each session. ``protocol``
    is a key of `PROTOCOLS`. If Codex cannot be started, requests of the client get an error.
    """
    defaults: SessionDefaults | None = None
    try:
        if not ADAPTER_VARIABLES.isdisjoint(os.environ):
            from codex_acp.cli.adapter_variables import read_variables
            from codex_acp.cli.process import take_variables

            variables = read_variables(os.environ, options.args)
            options = LaunchOptions(options.codex, variables.arguments, options.env, options.cwd)
            defaults, log_file = variables.defaults, log_file or variables.log_file
            take_variables(*ADAPTER_VARIABLES)
            for line in variables.notes:
                complain(f"{PROGRAM}: {line}")
        level = chosen_level(log_level)
        log = None if log_file is None else open_log(log_file)
    except (ValueError, MisuseError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    options = _in_safe_directory(options)
    # If Codex is not shared, each connection starts a Codex of its own.
    spawned = _spawn(options) if network is None or network.shared else None
    # Imports make many objects and little garbage; `run_stdio` enables the collection again.
    gc.disable()
    leave_pydantic_out()
    try:
        start_logging(level, log, log_file)
        if network is not None:
            from dataclasses import replace

            network = replace(network, versions=PROTOCOLS[protocol], defaults=defaults)
            run = _prepare_network(network, options, spawned)
        else:
            run = _prepare_stdio(options, spawned, line_limit, PROTOCOLS[protocol], defaults)
        return _run_recorded(run, transcript, transcript_wire, record)
    except (MisuseError, TransportError) as error:
        complain(f"{PROGRAM}: error: {error}")
        return BAD_ARGUMENTS if isinstance(error, MisuseError) else FAILED
    finally:
        gc.enable()
        if spawned is not None and not isinstance(spawned, LaunchError):
            spawned.kill_tree()  # no effect if Codex has ended


def _prepare_stdio(
    options: LaunchOptions,
    spawned: ChildProcess | LaunchError | None,
    line_limit: int | None,
    versions: tuple[int, ...],
    defaults: SessionDefaults | None,
) -> Callable[[Transcript], int]:
    """Return the function that serves the client on standard input and output."""
    if os.isatty(0):
        print(TERMINAL_HINT, file=sys.stderr)
    early = read_now(0)  # the bytes that the client has sent so far
    hello = None
    if early and spawned is not None and not isinstance(spawned, LaunchError):
        from codex_acp.adapter.early_hello import say_hello

        hello = say_hello(early, spawned)
    _load_asyncio_without_tls()
    from codex_acp.adapter.serve import run_stdio
    from codex_acp.jsonrpc import DEFAULT_LINE_LIMIT
    from codex_acp.transport.stdio import StdioLink, claim_stdout

    link = StdioLink(stdout_fd=claim_stdout(), early=early)
    limit = DEFAULT_LINE_LIMIT if line_limit is None else line_limit
    return lambda transcript: run_stdio(
        link, options, spawned, transcript, line_limit=limit, versions=versions,
        defaults=defaults, hello=hello,
    )  # fmt: skip


def _load_asyncio_without_tls() -> None:
    """Import asyncio without ``ssl``, a sixth of the import's time. ``ssl`` can be imported later,
    but asyncio opens no TLS connection in this process."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, ModuleType | None] = vars(sys)["modules"]
    modules["ssl"] = None
    try:
        import asyncio  # noqa: F401 - for later imports
    finally:
        del sys.modules["ssl"]


def _prepare_network(
    network: NetworkOptions, options: LaunchOptions, spawned: ChildProcess | LaunchError | None
) -> Callable[[Transcript], int]:
    """Return the function that serves clients of the network."""
    from codex_acp.adapter.network.listen import run_network

    def say(url: str) -> None:
        complain(f"{PROGRAM}: listening at {url}")
        if not network.tokens.needed:
            complain(f"{PROGRAM}: NO TOKEN IS NEEDED: every program on this machine may come in")
        if not (network.address.is_loopback or network.address.has_tls):
            complain(
                f"{PROGRAM}: TOKENS TRAVEL IN THE CLEAR, and all that is said: whoever is on the "
                "way can read them and come in; listen at https:// with --tls-cert and --tls-key"
            )

    return lambda transcript: run_network(network, options, spawned, transcript, say)


def _run_recorded(
    run: Callable[[Transcript], int],
    transcript_file: str | None,
    record_wire: bool,
    record: str | None,
) -> int:
    """Run with the transcript and the record of the options; log the transcript's events."""
    from logging import DEBUG, INFO, getLogger

    from codex_acp.transcript.log import Transcript

    log = getLogger("codex_acp")
    transcript = Transcript(record_wire=record_wire or log.isEnabledFor(DEBUG))
    if log.isEnabledFor(INFO):
        from codex_acp.cli.log_handler import log_entry

        transcript.subscribe(log_entry)
    path = None
    if transcript_file is not None or TRANSCRIPT_VARIABLE in os.environ:
        from codex_acp.transcript.writer import TranscriptWriter, transcript_path

        path = transcript_path(transcript_file, os.environ)
    if path is None and record is None:
        return run(transcript)
    from contextlib import ExitStack

    from codex_acp.transcript.given_values import secrets_of_environment
    from codex_acp.transcript.secrets import remember_secrets

    remember_secrets(secrets_of_environment(os.environ))
    with ExitStack() as stack:
        if record is not None:
            from codex_acp.adapter.session.record import SessionRecorder

            stack.enter_context(SessionRecorder(record, log))
        if path is not None:
            writer = stack.enter_context(TranscriptWriter(path))

            def write(entry: Entry) -> None:
                if record_wire or entry.event.type != "wire.message":
                    writer.write(entry)

            transcript.subscribe(write)
        return run(transcript)


_MAY_RUN = (b"include", b"insteadof", b"helper", b"askpass", b"plugins", b"worktreeconfig", b"\\")
"""Texts in lower case. A git configuration that lets a fetch run a program has at least one."""
_CONFIG_LIMIT = 64 * 1024
"""Bytes of a git configuration that is searched; a larger one gets the full check."""


def _in_safe_directory(options: LaunchOptions) -> LaunchOptions:
    """Return options that start Codex in ``/`` if git could run programs in this directory: Codex
    0.147 fetches plugins with git at its start, and git uses this directory's configuration."""
    if options.cwd is not None or not _may_run_programs():
        return options
    from codex_acp.codex.threads.git_programs import look

    if not look(os.getcwd()).programs:  # noqa: PTH109
        return options
    return LaunchOptions(options.codex, options.args, options.env, "/")


def _may_run_programs() -> bool:
    """Return whether the directory's git configuration needs the full check, which takes time."""
    path = os.getcwd()  # noqa: PTH109 - no pathlib before Codex is spawned, nor below
    while not any(os.path.lexists(os.path.join(path, name)) for name in (".git", "HEAD")):  # noqa: PTH118
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return False
        path = parent
    git = os.path.join(path, ".git")  # noqa: PTH118
    if link := _read(git):  # ``.git`` of a linked worktree is a file
        git = os.path.join(path, os.fsdecode(link).removeprefix("gitdir:").strip())  # noqa: PTH118
        git = os.path.join(git, os.fsdecode(_read(os.path.join(git, "commondir"))).strip())  # noqa: PTH118
    config = _read(os.path.join(git, "config")).lower()  # noqa: PTH118
    return not config or any(text in config for text in _MAY_RUN)


def _read(path: str) -> bytes:
    """Return the content of a small file; empty if the file is large or cannot be read."""
    if not os.path.isfile(path) or os.path.getsize(path) > _CONFIG_LIMIT:  # noqa: PTH113, PTH202
        return b""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(_CONFIG_LIMIT)
    except OSError:
        return b""


def _spawn(options: LaunchOptions) -> ChildProcess | LaunchError:
    try:
        return spawn_app_server(options, on_stderr_line=_log_stderr)
    except LaunchError as error:
        return error


def _log_stderr(line: str) -> None:
    from logging import getLogger

    getLogger("codex_acp.codex.stderr").info("%s", line)
