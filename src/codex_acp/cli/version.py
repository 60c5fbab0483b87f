"""Prints ``codex-acp-sdk --version``: ours, the schemas' and the binary's version."""

from __future__ import annotations

import os

from codex_acp._version import __version__
from codex_acp.acp._generated.version import SCHEMA_PACKAGE as ACP_PACKAGE
from codex_acp.acp._generated.version import SCHEMA_VERSION as ACP_VERSION
from codex_acp.codex._generated.version import SCHEMA_PACKAGE as CODEX_PACKAGE
from codex_acp.codex._generated.version import SCHEMA_VERSION as CODEX_VERSION
from codex_acp.codex.connection.handshake import check_version
from codex_acp.codex.connection.launch import CODEX_PATH_VARIABLE, codex_version, find_codex
from codex_acp.errors import CodexNotFound, CodexTooOld, LaunchError

UNUSABLE = 1
"""Exit code for a binary that is no Codex, or too old, or named and missing."""

_SOURCES = {
    "argument": "named by --codex",
    "CODEX_PATH": "named by CODEX_PATH",
    "wheel": "from the wheel openai-codex-cli-bin",
    "PATH": "found on PATH",
}


def version_text(codex: str | None = None) -> tuple[str, int]:
    """Four lines and the exit code; ``codex`` is the option of that name.

    That none is installed is no error here; one that is named and missing, or that is there and
    cannot be used, is.
    """
    code = 0
    try:
        binary = binary_text(codex)
    except LaunchError as error:
        named = codex is not None or os.environ.get(CODEX_PATH_VARIABLE)
        binary, code = str(error), UNUSABLE
        if isinstance(error, CodexNotFound) and not named:
            code = 0
    text = (
        f"codex-acp-sdk {__version__}\n"
        f"Codex schema  {CODEX_VERSION} ({_shown(CODEX_PACKAGE)})\n"
        f"ACP schema    v1 and v2 ({_shown(ACP_PACKAGE)} {ACP_VERSION})\n"
        f"Codex binary  {binary}\n"
    )
    return text, code


def binary_text(codex: str | None = None) -> str:
    """Version and path of the binary that would be used.

    Raises LaunchError if there is none, or none that this library works with.
    """
    found = find_codex(codex)
    version = codex_version(found.path)
    where = f"{found.path} ({_SOURCES[found.source]})"
    try:
        check_version(version)
    except CodexTooOld as error:
        raise LaunchError(f"{where}: {error}") from error
    return f"{version} at {where}"


def _shown(package: str) -> str:
    """``npm:@scope/name`` → ``npm @scope/name``."""
    return package.replace(":", " ", 1)
