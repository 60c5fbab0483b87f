"""Put a folder in the place of another, whole or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path


def swap(new: Path, target: Path) -> None:
    """Put ``new`` in the place of ``target``; both are on one file system.

    If the second rename fails, the old folder is put back. A process that is killed between the
    renames leaves the old folder beside the missing ``target``: `restore` puts it back.
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
    """Put back the old folder that a killed `swap` left beside ``target``."""
    old = _beside(target)
    if old.exists() and not target.exists():
        old.rename(target)


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}-before")
