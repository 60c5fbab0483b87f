"""What of an HTTP address and its headers may be a secret: nobody is to read it in a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_URL_SECRET: Final = re.compile(
    r"(?<=://)[^\s/@?#]+(?=@)|(?<==)[^\s&#]+|(?<=/)(?<!//)[\w.~%+-]{20,}(?=[/?#]|$)"
)
"""The user of a URL, the values of its query, and a part of its path that looks like a token."""


def http_secrets(url: str, headers: Mapping[str, str]) -> Iterator[str]:
    """Each as it stands there, and what of it is the secret alone."""
    for value in headers.values():
        yield value
        yield value.rpartition(" ")[2]  # without its scheme, as in "Bearer abc"
    for part in _URL_SECRET.findall(url):
        yield from (part, part.rpartition(":")[2])
