"""The option ``--trust`` of ``serve`` and ``run``: which directories the person trusts."""

from __future__ import annotations

import argparse
import os


def add_trust(parser: argparse.ArgumentParser) -> None:
    """``--trust DIR``, as often as needed; each is kept as Codex compares it."""
    parser.add_argument(
        "--trust",
        metavar="DIR",
        action="append",
        default=[],
        type=_directory,
        help="a repository that you trust: Codex uses the configuration, hooks and MCP servers it "
        "brings, as long as this runs; nothing is written; may be repeated",
    )


def _directory(text: str) -> str:
    if not os.path.isdir(text):  # noqa: PTH112
        raise argparse.ArgumentTypeError(f"{text!r} is no directory")
    return os.path.realpath(text)
