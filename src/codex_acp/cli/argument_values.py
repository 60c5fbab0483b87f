"""Reads the arguments of a command: as a number, a directory, or all of them as a dataclass."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)


def parsed_as(kind: type[Options], parsed: argparse.Namespace) -> Options:
    """The options of a command, whose fields are named like its arguments. What was not given is
    as ``kind`` has it by default.
    """
    given: dict[str, Any] = {name: getattr(parsed, name) for name in kind.__dataclass_fields__}
    return kind(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
            if value is not None
        }
    )


def positive(text: str, of: str = "") -> int:
    """A positive whole number; ``of`` says of what, in the message for one that is none."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number{of}")
    return number


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
