"""A folder put in place of another, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path


def swap(new: Path, target: Path) -> None:
    """Let ``new`` take the place of ``target``; both are on one file system.

    If the last step fails the old folder is put back. Killed between two renames it leaves
    ``target`` missing and the old folder beside it, which `restore` puts back.
    """
    old = _beside(target)
    if old.exists():
        shutil.rmtree(old)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def restore(target: Path) -> None:
    """Put back what a killed `swap` left aside."""
    old = _beside(target)
    if old.exists() and not target.exists():
        old.rename(target)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}-before")
