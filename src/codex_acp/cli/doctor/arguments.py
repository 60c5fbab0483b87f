"""The arguments of ``codex-acp-sdk doctor``, and what its help says of levels and exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codex_acp.cli.doctor.editors import EDITORS

if TYPE_CHECKING:
    import argparse

DESCRIPTION: Final = (
    "Look at Python, the Codex binary, its home, configuration, login, sandbox and MCP servers, "
    "and say of each whether it is ok, and if not, what to do. Codex is asked itself, in a copy "
    "of its home: nothing is written to yours, and no secret is printed. The MCP servers that are "
    "configured are started, as each session starts them. Every check has a limit, and all "
    "together have a minute."
)

EPILOG: Final = "exit codes: 0 no problem (warnings are none), 1 at least one, 2 usage, 130 Ctrl-C"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Options of ``doctor``."""

    codex: str | None = None
    turn: bool = False
    json: bool = False
    editor: str | None = None


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """Everything that may follow ``doctor`` but ``--codex``."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument(
        "--turn",
        action="store_true",
        help="run a whole prompt turn too: the real Codex, a scripted model on this machine and a "
        "throw-away home; no account, no cost",
    )
    parser.add_argument(
        "--editor",
        metavar="NAME",
        choices=tuple(EDITORS),
        help="print the settings to paste into an editor, and look at nothing unless --turn or "
        f"--json is given: {', '.join(EDITORS)}",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for other programs")
