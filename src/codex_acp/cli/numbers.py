"""Numbers among the arguments of a command."""

from __future__ import annotations

import argparse


def positive(text: str, of: str = "") -> int:
    """A positive whole number; ``of`` says of what, in the message for one that is none."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        message = f"{text!r} is not a positive whole number{of}"
        raise argparse.ArgumentTypeError(message)
    return number
