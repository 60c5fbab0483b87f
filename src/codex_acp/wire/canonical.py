"""JSON values as values: equality by the rules of JSON, and a canonical text to be hashed."""

from __future__ import annotations

import json


def canonical_json(value: object) -> str:
    """One text for each JSON value: sorted keys, no spaces, no escapes that are not needed.

    Raises TypeError or ValueError for what is no JSON, NaN included.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: object) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    import hashlib  # loads OpenSSL, and many a process digests nothing

    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def same_json(left: object, right: object) -> bool:
    """Equal as JSON: true is not 1, and 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return left == right
