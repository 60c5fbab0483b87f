"""Leave pydantic out of a process of the adapter, so that it starts faster.

pydantic-core's compiled module reads and writes the generated models. The Python modules of
pydantic-core and pydantic take fourteen times as long to import, and the models do not need them.
This module must load fast, because it is imported before Codex is spawned.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = "pydantic_core"

CORE = "pydantic_core._pydantic_core"
"""The compiled module of pydantic-core."""

TESTED = ("2.41", "2.46", "2.50")
"""Versions of pydantic-core that belong to the versions in `codex_acp.wire.lazy.TESTED`."""

_left_out = False


def leave_pydantic_out() -> None:
    """Leave pydantic out of this process. Only for a process of this library alone. Has no effect
    after an import of pydantic-core, or if pydantic-core is not installed."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec(PACKAGE)
    if PACKAGE in sys.modules or spec is None:
        return
    package = module_from_spec(spec)
    vars(package)["__getattr__"] = lambda name: _load_name(package, name)
    sys.modules[PACKAGE] = package
    global _left_out  # noqa: PLW0603 - holds for the process
    _left_out = True


def is_pydantic_left_out() -> bool:
    """Return whether this process runs without pydantic; may import pydantic-core to find out."""
    if not _left_out or "pydantic" in sys.modules:
        return False
    from pydantic_core import __version__

    return __version__.rpartition(".")[0] in TESTED


def core_if_loaded() -> ModuleType | None:
    """Return pydantic-core's compiled module if it is imported, or is just being imported."""
    return sys.modules.get(CORE)


def _load_name(package: ModuleType, name: str) -> object:
    """Return a name of the compiled module; load the whole package for any other name."""
    from importlib import import_module

    names = vars(package)
    if "MISSING" not in names:  # the first call
        core = import_module(CORE)
        names |= {public: getattr(core, public) for public in core.__all__}
        # The compiled module looks this name up when it writes values.
        names["MISSING"] = object()
    if name not in names:
        names.pop("__getattr__", None)
        assert package.__spec__ is not None
        assert package.__spec__.loader is not None
        package.__spec__.loader.exec_module(package)
    return getattr(package, name)
