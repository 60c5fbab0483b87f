"""Patch schemas. A patch states which value it replaces; another value there stops the run."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from codegen.errors import CodegenError

ABSENT = ""
"""The old digest of a patch that adds a value."""


@dataclass(frozen=True)
class Patch:
    """One replacement of a value."""

    pointer: str
    """JSON pointer (RFC 6901) to the value."""
    old_digest: str
    """`digest` of the old value, or ABSENT."""
    new: Any
    """The new value; None to remove the old one."""
    reason: str


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the value's canonical JSON."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def apply(
    schema: dict[str, Any], patches: tuple[Patch, ...], *, strict: bool = True
) -> dict[str, Any]:
    """Return a patched copy of ``schema``. Raises CodegenError for a patch that does not fit;
    leaves the patch out if not ``strict``."""
    patched = copy.deepcopy(schema)
    for patch in patches:
        *path, last = patch.pointer.removeprefix("/").split("/")
        holder: Any = patched
        for step in path:
            holder = holder.get(step, {}) if isinstance(holder, dict) else {}
        found = digest(holder[last]) if last in holder else ABSENT
        if found != patch.old_digest:
            if not strict:
                continue
            raise CodegenError(
                f"the patch at {patch.pointer} ({patch.reason}) expects "
                f"{patch.old_digest or 'nothing'} but finds {found or 'nothing'}; "
                "look at the new schema and mend or drop the patch"
            )
        if patch.new is None:
            del holder[last]
        else:
            holder[last] = patch.new
    return patched
