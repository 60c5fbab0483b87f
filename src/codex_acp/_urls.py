"""PURE: decide which URL a person may be shown and asked to open (contract 2.4).

Owns the decision for both sides of ACP. A URL is never fetched and never rewritten: it is shown
unchanged, or refused. A URL is refused if browsers read it in another way than a person does
(backslashes, user info, numbers that are addresses, hosts that normalise to other hosts).

Sources: RFC 3986, and for browsers the host parser of https://url.spec.whatwg.org.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

from codex_acp._glyphs import has_glyph

MAX_URL_BYTES: Final = 8 * 1024
"""Bytes of a URL in UTF-8: nobody can read a longer one."""

_MAX_HOST: Final = 253
_MAX_LABEL: Final = 63
"""Limits of the domain name system (RFC 1035), in ASCII characters."""

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]{0,30}):", re.IGNORECASE)
_HTTP: Final = re.compile(r"(https?)://([^/?#]*)(?:[/?#].*)?", re.IGNORECASE)
"""The scheme and the authority."""
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?")
"""The host and the port."""
_ASCII_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label like this makes a browser read the whole host as an IPv4 address."""

_LEFT_OUT: Final = "[redacted]"
_OPAQUE: Final = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_.~-]{20,}")
"""A segment of a path with letters and digits, so long that it may be a token."""


@dataclass(frozen=True, slots=True)
class AllowedUrl:
    """A URL that a person may be shown and asked to open."""

    url: str
    """The URL, unchanged."""
    host: str
    """The host that is really contacted, in lower case and ASCII (punycode if necessary)."""
    host_as_written: str
    """The host in the URL. If this has other letters than ASCII, show both hosts."""


@dataclass(frozen=True, slots=True)
class RefusedUrl:
    """A URL that no person may be shown as a page, or asked to open."""

    reason: str
    """Completes the sentence "the URL was refused: …"."""


def allowed_url(url: str) -> AllowedUrl | RefusedUrl:
    """Decide whether a person may be shown ``url`` as a page, and asked to open it.

    ``https`` is allowed, and ``http`` to this machine. Reasons for a refusal: any other scheme, a
    user name before the host, a backslash, invisible characters, and a host that browsers take for
    another host.
    """
    if len(url) > MAX_URL_BYTES:
        return RefusedUrl(f"it is longer than {MAX_URL_BYTES} bytes")
    if " " in url or not all(map(has_glyph, url)):
        return RefusedUrl("it contains spaces or characters that cannot be seen")
    if len(url.encode()) > MAX_URL_BYTES:  # a lone surrogate, refused above, cannot be encoded
        return RefusedUrl(f"it is longer than {MAX_URL_BYTES} bytes")
    if "\\" in url:
        return RefusedUrl("it contains a backslash, which browsers read as a slash")
    match = _HTTP.fullmatch(url)
    if match is None:
        return RefusedUrl(_wrong_scheme(url))
    scheme, authority = match.group(1).lower(), match.group(2)
    if "@" in authority:
        return RefusedUrl("it has a user name before its host, which hides where it leads")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None or (parts[2] and not 0 < int(parts[2]) < 2**16):
        return RefusedUrl("its host and port cannot be read")
    host = _ascii_host(parts[1])
    if isinstance(host, RefusedUrl):
        return host
    is_here = host in ("localhost", "[::1]") or (_is_ipv4(host) and IPv4Address(host).is_loopback)
    if scheme == "http" and not is_here:
        return RefusedUrl("only https is allowed, and http to this machine")
    return AllowedUrl(url, host, parts[1])


def bare_url(url: str) -> str:
    """Return scheme, host, port and path of ``url``. The user, query and fragment may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return _LEFT_OUT
    if not parts.scheme or not host:
        return _LEFT_OUT
    host = f"[{host}]" if ":" in host else host
    segments = (_LEFT_OUT if _OPAQUE.fullmatch(s) else s for s in parts.path.split("/"))
    # The parameters of a segment (";jsessionid=...") may be secret, too.
    path = "/".join(segment.partition(";")[0] for segment in segments)
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{path}"


def _wrong_scheme(url: str) -> str:
    scheme = _SCHEME.match(url)
    if scheme is None:
        return "it has no scheme; only https is allowed, and http to this machine"
    if scheme.group(1).lower() in ("http", "https"):
        return "its scheme is not followed by //"
    return f"its scheme is {scheme.group(1).lower()}; only https and local http are allowed"


def _ascii_host(written: str) -> str | RefusedUrl:
    """Return the host in lower case and ASCII, or the refusal."""
    if not written:
        return RefusedUrl("it has no host")
    if written.startswith("["):
        try:
            address = IPv6Address(written[1:-1])
        except AddressValueError:
            return RefusedUrl("its host is no valid address")
        if address.scope_id is not None:
            return RefusedUrl("its host is no valid address")
        return f"[{address.compressed}]"
    found: list[str] = []
    for label in written.split("."):
        ascii_label = _ascii_label(label)
        if isinstance(ascii_label, RefusedUrl):
            return ascii_label
        found.append(ascii_label)
    host = ".".join(found)
    if len(host) > _MAX_HOST:
        return RefusedUrl("its host is too long")
    if _NUMBER.fullmatch(found[-1]) and not _is_ipv4(host):
        return RefusedUrl("its host is a number that browsers read as an address")
    return host


def _ascii_label(label: str) -> str | RefusedUrl:
    """Return one part of a host, between dots, in ASCII. Refuses characters that a browser would
    replace first (capital, compatibility and full-width letters, other dots)."""
    if not label:
        return RefusedUrl("its host has an empty part")
    if not label.isascii():
        is_normal = unicodedata.normalize("NFKC", label).lower() == label
        # Letters, marks and numbers.
        is_word = all(c == "-" or unicodedata.category(c)[0] in "LMN" for c in label)
        if not (is_normal and is_word) or label.startswith("-") or label.endswith("-"):
            return RefusedUrl("its host is not written in the normal form of a host name")
        label = "xn--" + label.encode("punycode").decode("ascii")
    label = label.lower()
    if len(label) > _MAX_LABEL or not _ASCII_LABEL.fullmatch(label):
        return RefusedUrl("its host is no valid host name")
    return label


def _is_ipv4(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True
