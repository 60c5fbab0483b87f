"""Pydantic left out of a process of the adapter, where nobody else looks at a model.

What reads and writes is pydantic-core's compiled module. Around it ``import pydantic_core``
describes its schemas in typed dictionaries, and pydantic makes classes of annotations, which
generated ones do without: together fourteen times its own time. Must be light: it is loaded before
a process is spawned.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself is not worth its import before a process is spawned
if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = "pydantic_core"

CORE = "pydantic_core._pydantic_core"
"""The compiled module."""

TESTED = ("2.41", "2.46", "2.50")
"""Its versions that were tested by themselves: those of `codex_acp.wire.lazy.TESTED`."""

_left_out = False


def leave_out() -> None:
    """Said first by a command whose process runs nothing but this library.

    Generated models are then no pydantic models, and all else about them is the same. Does nothing
    where somebody was faster, or the package cannot be found as usual.
    """
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec(PACKAGE)
    if PACKAGE in sys.modules or spec is None:
        return
    package = module_from_spec(spec)
    vars(package)["__getattr__"] = lambda name: _found(package, name)
    sys.modules[PACKAGE] = package
    global _left_out  # noqa: PLW0603 - of the process
    _left_out = True


def is_left_out() -> bool:
    """Whether pydantic is not needed here; loads pydantic-core if it can be so."""
    if not _left_out or "pydantic" in sys.modules:
        return False
    from pydantic_core import __version__

    return __version__.rpartition(".")[0] in TESTED


def core_if_loaded() -> ModuleType | None:
    """pydantic-core's compiled module; it may not be complete yet."""
    return sys.modules.get(CORE)


def _found(package: ModuleType, name: str) -> object:
    """Return a name that the package lacks so far, from the compiled module or from all of
    pydantic-core."""
    from importlib import import_module

    names = vars(package)
    if "MISSING" not in names:
        core = import_module(CORE)
        names |= {public: getattr(core, public) for public in core.__all__}
        # Which the compiled module looks for among the values that it writes.
        names["MISSING"] = object()
    if name not in names:
        names.pop("__getattr__", None)
        assert package.__spec__ is not None
        assert package.__spec__.loader is not None
        package.__spec__.loader.exec_module(package)
    return getattr(package, name)
