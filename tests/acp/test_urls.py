"""2.4: which URLs go to a person."""

# ruff: noqa: RUF001 - look-alikes are what is tested

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_acp._urls import MAX_URL_BYTES, AllowedUrl, RefusedUrl, allowed_url
from codex_acp.routing.display import is_plain

ALLOWED = {
    "https://example.com": "example.com",
    "https://example.com/": "example.com",
    "HTTPS://Example.COM/Path?q=1#f": "example.com",
    "https://example.com:8443/a": "example.com",
    "https://example.com/@user": "example.com",
    "https://example.com?next=http://a@b": "example.com",
    "https://example.com#@evil": "example.com",
    "https://a.b-c.example_1.org/%0d": "a.b-c.example_1.org",
    "https://xn--bcher-kva.example/": "xn--bcher-kva.example",
    "https://192.0.2.7/": "192.0.2.7",
    "https://[2001:DB8::0001]/x": "[2001:db8::1]",
    "https://localhost/": "localhost",
    "https://127.0.0.1/consent": "127.0.0.1",
    "http://localhost": "localhost",
    "http://LOCALHOST:1455/callback?code=1": "localhost",
    "http://127.0.0.1:8080/": "127.0.0.1",
    "http://127.255.255.254/": "127.255.255.254",
    "http://[::1]:3000/": "[::1]",
    "http://[0:0:0:0:0:0:0:1]/": "[::1]",
    "https://bücher.example/ü": "xn--bcher-kva.example",
    "https://straße.de/": "xn--strae-oqa.de",
    "https://аррӏе.com/": "xn--80ak6aa92e.com",
    "https://例え.テスト/": "xn--r8jz45g.xn--zckzah",
}

REFUSED = {
    "": "scheme",
    "example.com": "scheme",
    "//example.com/": "scheme",
    "/path": "scheme",
    "javascript:alert(1)": "javascript",
    "JavaScript://example.com/%0aalert(1)": "javascript",
    "data:text/html,hi": "data",
    "file:///etc/passwd": "file",
    "ftp://example.com/": "ftp",
    "vscode://open": "vscode",
    "about:blank": "about",
    "blob:https://example.com/1": "blob",
    "view-source:https://example.com": "view-source",
    "https:example.com": "//",
    "https:/example.com": "//",
    "https://": "no host",
    "https:///example.com": "no host",
    "https://?x": "no host",
    "https://:443/": "no host",
    "https://bank.example@evil.example/": "user name",
    "https://user:pass@evil.example/": "user name",
    "https://bank.example%2F@evil.example/": "user name",
    "https://@evil.example/": "user name",
    "https://bank.example\\@evil.example/": "backslash",
    "https:\\\\evil.example": "backslash",
    "https://example.com/a\\b": "backslash",
    " https://example.com": "cannot be seen",
    "https://example.com ": "cannot be seen",
    "https://exa mple.com": "cannot be seen",
    "https://example.com/\n": "cannot be seen",
    "https://exam\tple.com/": "cannot be seen",
    "java\nscript:alert(1)": "cannot be seen",
    "https://example.com/\x00": "cannot be seen",
    "https://example.com/\x1b[2J": "cannot be seen",
    "https://example.com/\u202egpj.exe": "cannot be seen",
    "https://example.com\u200b.evil.example": "cannot be seen",
    "https://exam\u00adple.com/": "cannot be seen",
    "https://example.com/\u00a0": "cannot be seen",
    "https://example.com/\ud800": "cannot be seen",
    "https://example.com:/": "port",
    "https://example.com:0/": "port",
    "https://example.com:65536/": "port",
    "https://example.com:99999999/": "port",
    "https://example.com:80:80/": "port",
    "https://example.com:8o/": "port",
    "https://example.com:８０/": "port",
    "https://[::1": "port",
    "https://[::1]evil.example/": "port",
    "https://[v1.x]/": "address",
    "https://[fe80::1%25eth0]/": "address",
    "https://[fe80::1%eth0]/": "address",
    "https://[]/": "address",
    "https://example.com./": "empty part",
    "https://a..example.com/": "empty part",
    "https://.example.com/": "empty part",
    "https://-a.example/": "no valid host",
    "https://a-.example/": "no valid host",
    "https://exa%6dple.com/": "no valid host",
    "https://a,b.example/": "no valid host",
    "https://" + "a" * 64 + ".example/": "no valid host",
    "https://" + "a." * 130 + "example/": "too long",
    "https://2130706433/": "number",
    "https://0x7f000001/": "number",
    "https://0x7f.1/": "number",
    "https://127.1/": "number",
    "https://0177.0.0.1/": "number",
    "https://256.0.0.1/": "number",
    "https://example.0x/": "number",
    "https://bank.example。evil.example/": "normal form",
    "https://bank.example／evil.example/": "normal form",
    "https://ｂank.example/": "normal form",
    "https://Bücher.example/": "normal form",
    "https://bu\u0308cher.example/": "normal form",
    "https://💩.example/": "normal form",
    "https://ü-.example/": "normal form",
    "https://" + "ü" * 60 + ".example/": "normal form|no valid host",
    "http://example.com/": "only https",
    "http://192.168.1.1/": "only https",
    "http://0.0.0.0/": "only https",
    "http://128.0.0.1/": "only https",
    "http://localhost.evil.example/": "only https",
    "http://127.0.0.1.evil.example/": "only https",
    "http://evil.example/127.0.0.1": "only https",
    "http://[::ffff:127.0.0.1]/": "only https",
    "http://[::2]/": "only https",
    "http://localhоst/": "only https",
}


@pytest.mark.parametrize(("url", "host"), ALLOWED.items())
def test_2_4_https_and_local_http_are_forwarded_unchanged(url: str, host: str) -> None:
    allowed = allowed_url(url)
    assert isinstance(allowed, AllowedUrl), allowed
    assert allowed.url == url
    assert allowed.host == host


@pytest.mark.parametrize(("url", "reason"), REFUSED.items())
@pytest.mark.attack("MCP server")
def test_2_4_every_other_url_is_refused_with_the_reason(url: str, reason: str) -> None:
    refused = allowed_url(url)
    assert isinstance(refused, RefusedUrl), refused
    assert any(part in refused.reason for part in reason.split("|")), refused.reason


def test_2_4_an_over_long_url_is_refused() -> None:
    base = "https://example.com/"
    longest = base + "a" * (MAX_URL_BYTES - len(base))
    assert isinstance(allowed_url(longest), AllowedUrl)
    assert isinstance(allowed_url(longest + "a"), RefusedUrl)
    assert isinstance(allowed_url(base + "ü" * 4100), RefusedUrl)
    assert isinstance(allowed_url("x" * 10**6), RefusedUrl)


def test_a_host_beyond_ascii_is_known_by_both_names() -> None:
    allowed = allowed_url("https://аррӏе.com/login")
    assert allowed == AllowedUrl("https://аррӏе.com/login", "xn--80ak6aa92e.com", "аррӏе.com")


_PIECES = st.one_of(
    st.sampled_from(["https", "http", "javascript", ":", "/", "//", "@", "\\", "%2f", "?", "#"]),
    st.sampled_from(["example.com", "localhost", "127.0.0.1", "[::1]", ".", "。", "evil", "8080"]),
    st.sampled_from(["\t", "\n", "\u202e", " ", "ü", "0"]),
)


@given(st.lists(_PIECES, max_size=9).map("".join) | st.text())
def test_2_4_what_is_allowed_has_one_reading(url: str) -> None:
    """An independent parser sees the same host, no user, no other scheme."""
    answer = allowed_url(url)
    if isinstance(answer, RefusedUrl):
        assert answer.reason
        assert is_plain(answer.reason)
        return
    parts = urlsplit(url)
    assert answer.url == url
    assert parts.scheme in ("https", "http")
    assert parts.username is None
    assert parts.password is None
    written = parts.hostname or ""
    assert answer.host_as_written.strip("[]").lower() == written
    assert answer.host.isascii()
    if parts.scheme == "http":
        assert answer.host in ("localhost", "[::1]") or answer.host.startswith("127.")


@given(st.lists(_PIECES, max_size=6).map(lambda rest: "https://" + "".join(rest)))
def test_2_4_no_url_with_a_hidden_character_is_allowed(url: str) -> None:
    if isinstance(allowed_url(url), AllowedUrl):
        assert is_plain(url)
        assert "@" not in urlsplit(url).netloc
