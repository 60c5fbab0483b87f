"""Let a package load its names when they are first used (PEP 562).

Also `overload` without typing, and `sha256_hex` without OpenSSL, for modules of every start.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing would delay the spawn of a process
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any
    from typing import overload as overload  # noqa: PLC0414 - passed on
else:

    def overload(function: Any) -> Any:
        """Return ``function``. Type checkers see typing's own ``overload``."""
        return function


def lazy(
    package: str, names_of: Mapping[str, str | Iterable[str]]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package that loads its names on use.

    ``names_of`` maps a module to its public names: a list, or one string with spaces. The module is
    below the package, or has its full name. The names under "" are modules of the package. Type
    checkers and editors read the stub beside the package, which `nox -s regen` makes of the table.
    """
    module_of = {
        name: module
        for module, names in names_of.items()
        for name in (names.split() if isinstance(names, str) else names)
    }

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        module = module_of[name]
        if not module:
            return import_module(f"{package}.{name}")
        full_name = module if module.startswith("codex_acp.") else f"{package}.{module}"
        value: object = getattr(import_module(full_name), name)
        setattr(sys.modules[package], name, value)
        return value

    return list(module_of), load, lambda: sorted(module_of)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 in hex, without OpenSSL, which takes 4 ms to load."""
    for module in ("_sha2", "_sha256"):  # _sha256: before Python 3.12
        try:
            return str(__import__(module).sha256(data).hexdigest())
        except ImportError:
            continue
    from hashlib import sha256 as of_openssl

    return of_openssl(data).hexdigest()
