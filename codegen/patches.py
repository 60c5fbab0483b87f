"""Schema patches: each states what it expects to find, and stops the run when that is gone."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from codegen.errors import CodegenError

ABSENT = ""
"""The digest of a value that is not there yet."""


@dataclass(frozen=True)
class Patch:
    """Replace the value at ``pointer`` (RFC 6901); ``new`` None removes it."""

    pointer: str
    old_digest: str
    """First 16 hex digits of the SHA-256 of the old value's canonical JSON, or ABSENT."""
    new: Any
    reason: str


def digest(value: Any) -> str:
    """What ``Patch.old_digest`` must be for ``value``."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def apply(
    schema: dict[str, Any], patches: tuple[Patch, ...], *, strict: bool = True
) -> dict[str, Any]:
    """A patched copy of ``schema``. A patch that does not fit is an error, or left out."""
    patched = copy.deepcopy(schema)
    for patch in patches:
        *path, last = patch.pointer.removeprefix("/").split("/")
        holder: Any = patched
        for step in path:
            holder = holder.get(step, {}) if isinstance(holder, dict) else {}
        there = digest(holder[last]) if last in holder else ABSENT
        fits = there == patch.old_digest
        if not fits and not strict:
            continue
        if not fits:
            raise CodegenError(
                f"the patch at {patch.pointer} ({patch.reason}) expects "
                f"{patch.old_digest or 'nothing'} but finds {there or 'nothing'}; "
                "look at the new schema and mend or drop the patch"
            )
        if patch.new is None:
            del holder[last]
        else:
            holder[last] = patch.new
    return patched
