"""Look where paths really lead: follow their links, and see whether anything is there.

Blocks while the disk does not answer: call it in a thread and stop waiting after `LOOK_SECONDS`.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from codex_acp._files import PerProcessError, resolved
from codex_acp.codex.approvals.running_items import NOT_IN_TIME, UNKNOWN_PLACE, PathLook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LOOK_SECONDS: Final = 2.0
"""Seconds for the paths of one action: an idle disk needs a tenth, a dead one never answers."""


def look_at(paths: Iterable[str], roots: Mapping[str, str] | None = None) -> dict[str, PathLook]:
    """Return where each path leads, without the text of the file. ``roots`` maps each directory
    that a person has opened to its real path at that time: `PathLook.named` follows the links to
    these directories."""
    real_roots = sorted((roots or {}).items(), reverse=True)  # a directory before its parents
    return {path: _look(path, real_roots) for path in paths}


def not_looked_at(paths: Iterable[str]) -> dict[str, PathLook]:
    """Return looks with a problem, for paths that could not be looked at in time."""
    return {path: PathLook(problem=NOT_IN_TIME) for path in paths}


def _look(path: str, real_roots: Sequence[tuple[str, str]]) -> PathLook:
    if not os.path.isabs(path):  # noqa: PTH117 - a string of the protocol
        return _unknown("it is no absolute path")
    try:
        real = resolved(path)
        above, name = os.path.split(path.rstrip("/"))
        place = real if name in ("", ".", "..") else f"{resolved(above).rstrip('/')}/{name}"
        f"{place}{real}".encode()  # raises UnicodeEncodeError
        exists, size = True, os.stat(path).st_size  # noqa: PTH116 - a string of the protocol
    except (FileNotFoundError, NotADirectoryError):
        exists, size = False, 0
    except OSError as error:
        if error.errno == errno.ELOOP:
            return PathLook(problem="its links lead in a circle or are too many")
        reason = error.strerror or type(error).__name__
        return _unknown(reason)._replace(per_process=isinstance(error, PerProcessError))
    except UnicodeEncodeError:  # JSON cannot have such a name
        return _unknown("its name is not UTF-8")
    except ValueError:
        return _unknown("no path can have such characters")
    return PathLook(place, real, _named(path, real_roots), exists, size)


def _named(path: str, real_roots: Sequence[tuple[str, str]]) -> str:
    """Return `PathLook.named`."""
    for root, real_root in real_roots:
        below = path.removeprefix(root.rstrip("/"))
        if below != path and below[:1] in ("", "/"):
            return os.path.normpath(f"{real_root}/{below}")
    return os.path.normpath(path)


def _unknown(reason: str) -> PathLook:
    return PathLook(problem=f"{UNKNOWN_PLACE}{reason}")
