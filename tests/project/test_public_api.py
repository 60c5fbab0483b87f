"""The public names and their signatures, as a golden file: a change to them is a deliberate one.

``CODEX_ACP_UPDATE_GOLDEN=1`` writes it anew; look at the difference, and write a line for the
release notes. Generated models are named only: their fields are the protocols'.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_origin

from pydantic import BaseModel

from tests.support.golden import assert_golden

PUBLIC = (
    "codex_acp", "codex_acp.acp", "codex_acp.bridge", "codex_acp.codex", "codex_acp.codex.sync",
    "codex_acp.errors", "codex_acp.fleet", "codex_acp.runtime", "codex_acp.testing",
    "codex_acp.transcript",
)  # fmt: skip


def public_api() -> str:
    lines: list[str] = []
    for package in PUBLIC:
        module = importlib.import_module(package)
        lines.append(f"# {package}")
        for name in sorted(module.__all__):
            lines += described(name, getattr(module, name))
        lines.append("")
    return "\n".join(lines)


def described(name: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing):
        bases = ", ".join(b.__name__ for b in thing.__bases__ if b is not object)
        yield f"class {name}({bases})" if bases else f"class {name}"
        if not issubclass(thing, BaseModel | enum.Enum):
            yield from members(thing)
    elif get_origin(thing) in (Union, UnionType):  # one class from 3.14 on
        yield f"{name}: Union"
    elif callable(thing) and hasattr(thing, "__module__"):
        yield f"{name}{signature(thing)}"
    else:
        yield f"{name}: {type(thing).__name__}"


def members(thing: type) -> Iterator[str]:
    made = getattr(thing, "__init__", None) if "__init__" in vars(thing) else None
    if inspect.isfunction(made):
        yield f"    __init__{signature(made)}"
    for name in sorted(public_members(thing)):
        found = inspect.getattr_static(thing, name)
        if isinstance(found, classmethod | staticmethod):
            found = found.__func__
        if inspect.isfunction(found):
            prefix = "async " if inspect.iscoroutinefunction(found) else ""
            yield f"    {prefix}{name}{signature(found)}"
        elif isinstance(found, property):
            returned = inspect.get_annotations(found.fget).get("return") if found.fget else None
            yield f"    {name}: {returned}"
        else:
            yield f"    {name}"


def public_members(thing: type) -> set[str]:
    ours = [base for base in thing.__mro__ if base.__module__.startswith("codex_acp")]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


def signature(thing: Any) -> str:
    if get_origin(thing) is not None:  # an alias: what it shows differs by Python
        return "(...)"
    try:
        shown = str(inspect.signature(thing)).replace("'", "")
        return re.sub(r"<(?:built-in )?(?:function|method) (\S+)[^>]*>", r"\1", shown)
    except (TypeError, ValueError):
        return "(...)"


def test_the_public_names_and_signatures_are_those_of_the_golden_file() -> None:
    assert_golden("public_api.txt", public_api())
