"""PURE: remove tokens, keys and remembered secrets from any text.

Patterns decide what looks like a secret. A pattern is compiled when it is first searched.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codex_acp.jsonrpc import JsonValue

_NAME: Final = (
    r"(?:api|access|account|private|secret|auth|signing|encryption|master)[ _-]?key"
    r"|token|secret|password|passwd|passphrase|pwd|credentials?|signature|storepass|keypass"
    r"|secret[_-]?key[_-]?base|(?:user|device)[_-]?code|code[_-]?verifier"
    r"|(?<![a-z])(?:pass|pat|auth|otp|sig)(?==)"
)
"""Names whose value, after ``=`` or ``:``, is a secret."""
_NAME_WORDS: Final = (
    "key token secret passw pwd passphrase credential signature storepass code pass= pat= auth="
    " otp= sig="
)
"""Words. Every text with a match of `_NAME` contains one of these words."""
_VALUE: Final = r"(?:\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|(?!-|<[\w-]{1,40}>)[^\s\"',;]+)"
_COMMA: Final = r"[\"'],\s{0,8}(?=[\"'])"
"""Separator between the words of a command that is written as a list."""
_OPTION: Final = (
    rf"(?i)(?<![^\s\"'\[(])(--?(?:[\w-]{{0,40}}[_-])?(?:{_NAME})(?: +|{_COMMA})){_VALUE}"
)
"""Option of a command line whose value is the next word."""
_LOGIN: Final = (
    rf"(?<![^\s\"'\[(])((?:-[uU](?:[ =]|{_COMMA})?"
    rf"|(?:--user|--proxy-user|--creds)(?:[ =]|{_COMMA}))"
    r"[\"']?[^\s:\"'-][^\s:\"']*:)[^\s\"']+"
)
"""``curl -u name:password``."""
_HOOK: Final = r"(?i)(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s\"'<>]+"
"""URLs that are secrets."""
_PEM_KEY: Final = (
    r"(?s)-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}.*?"
    r"(?:-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}|\Z)"
)
_KEY_LINE: Final = (
    r"(?m)^([ \t>|]{0,8}[\"']?)"
    r"(?!/(?:home|Users|root|usr|opt|var|tmp|private|mnt|srv|work|Volumes)/)"
    r"(?=[a-z0-9+/]*+[A-Z])(?=[A-Z0-9+/]*+[a-z])(?=[A-Za-z+/]*+\d)"
    r"[A-Za-z0-9+/]{60,}={0,2}(?=(?:\\n)?[\"']?,?\r?$)"
)
"""Line of a key that arrives line by line. Digests do not match: their letters have one case."""
_HEADER: Final = (
    r"(?i)(?<![a-z])((?:proxy[-_])?authori[sz]ation|(?:set-)?cookie|x-api-key|api-key)(?![a-z])"
    r"(\W{0,3}(?:[:=]>?|[\"'] ?, ?(?=b?[\"'])) ?).+"
)
_NAMED: Final = (
    rf"(?i)([\"'](?:name|key)[\"']\s?[:=]\s?[\"'](?=[^\"']{{0,60}}(?:{_NAME}|authorization|cookie|key[\"']))"
    r"[^\"']{1,80}[\"']\s{0,20},?\s{0,20}[\"']value[\"']\s?[:=]\s?)"
    r"(?:\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?)"
)
"""``{"name": "API_KEY", "value": "..."}``: variables and headers in protocols."""
_PAIR: Final = (
    rf"(?i)((?:{_NAME})(?:\\{{0,8}}[\"'])?\s{{0,3}}(?:[=:]>?|%3d)\s{{0,3}})"
    r"(?:\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|\\{1,8}[\"'][^\"'\\]*+|[^\s&\"',;]+)"
)
_ELEMENT: Final = rf"(?i)(<[\w:.-]{{0,40}}(?:{_NAME})[\w:.-]{{0,40}}>)[^<>]+(?=</)"
_CONNECTION: Final = r"(?i)(;\s{0,3}(?:password|pwd)\s{0,3}=)[^;\n\"']+"
"""Password in a connection string; its value ends at the next semicolon."""
_USER: Final = r"(://)[^\s/@?#]+(?=@)"
_PASSWORD_OF_URL: Final = (
    r"(://[^\s/@?#:\"'<>]*+:)(?!\d{1,5}(?:[/?#\s]|$))(?:(?:(?!://)[^\s@\"'<>])*+@)+"
)
"""Password in a URL; with unescaped characters in it, the last ``@`` is its end."""

# These patterns stop at the next "://", so that a text with many URLs takes linear time.
_URL_QUERY: Final = r"(://(?:(?!://)[^\s?#\"'<>])*+\?)[^\s\"'<>]+"
_QUERY: Final = r"(\?)(?=[\w.%~-]++=)[^\s\"'<>]+"
_FRAGMENT: Final = re.compile(r"(://(?:(?!://)[^\s?#\"'<>])*+#)[^\s\"'<>]+")
"""Fragment of a URL; a secret unless it names a place of the page."""
_NETRC: Final = (
    r"((?:\bmachine\s+\S+\s+(?:login\s+\S+\s+)?|(?m:^)default\s+login\s+\S+\s+)"
    r"(?:account\s+\S+\s+)?password\s+"
    r"|(?m:^)[ \t]*+login\s+(?!(?:and|or)\s)\S+\s+password\s+"
    r"|(?m:^)[ \t]++password[ \t]+(?=\S+[ \t]*$))\S+"
)
_SENTENCE: Final = (
    r"(?i)(\b(?:password|passphrase|passcode|token|secret|api key) (?:is|was):? [\"'`]?)"
    r"(?!base\d|sha\d|md5|utf|[rhe]s\d|https?:|v?\d+(?:\W|$)|\d+[a-z]+\b)(?=[^\s\d]*+\d)(?=[^\sA-Za-z]*+[A-Za-z])[^\s\"'`]{6,}"
)
"""Secret in a sentence; it needs a digit, or "the password is invalid" would match."""
_JWT: Final = (
    r"(?<![A-Za-z0-9_-])(?:ops_)?eyJ[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*"
)
_TOKENS: Final = (
    r"(?<![A-Za-z0-9])(?:"
    # services for models
    r"sk-[A-Za-z0-9_-]{8,}|(?:sess|xai|pplx|tvly|ctx7sk)-(?:[a-z]{2,8}-)?[A-Za-z0-9]{16,}"
    r"|(?:hf|gsk|r8|pcsk|jina|e2b|ntn|figd|glsa|glc|sbp|npm|rubygems|dop_v1|doo_v1|dor_v1|dckr_pat"
    r"|lsv2_pt|lsv2_sk|pscale_tkn|pscale_pw|sntrys|sntryu|lin_api|whsec)_[A-Za-z0-9]{20,}"
    # code hosting
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|ffct|oas)-[A-Za-z0-9_-]{20,}"
    r"|AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}|pypi-[A-Za-z0-9_-]{20,}|oy2[a-z0-9]{43}\b"
    # clouds
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}"
    r"|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{24,}|[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{30,}"
    r"|(?<![+/])[A-Za-z0-9+/]{86}==|hv[sbr]\.[A-Za-z0-9_-]{20,}|tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,}"
    r"|dapi[0-9a-f]{32}|dp\.[a-z]{2,8}\.[A-Za-z0-9]{30,}|PMAK-[a-f0-9]{24}-[a-f0-9]{20,}"
    # messages and payments
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-\d-[A-Za-z0-9-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|SK[0-9a-f]{32}\b|key-[0-9a-f]{32}\b"
    r"|[0-9a-f]{32}-us\d{1,2}\b|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}|sq0(?:atp|csp)-[\w-]{20,}"
    r"|\d{8,10}:AA[A-Za-z0-9_-]{32,}|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"
    r"|NRAK-[A-Z0-9]{20,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|AGE-SECRET-KEY-1[A-Z0-9]{20,})"
)
"""Tokens of known services, by their published prefix or form."""
_HASH: Final = r"\$(?:1|2[aby]|5|6|y|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,}"
"""Hash of a password."""
_REST: Final = r"(?=[\s\"'])(?:(?:[^\n;|&\"']|\"(?:[^\"\\\n]|\\.)*+\"?|'[^'\n]*+'?)*+)"
"""Arguments of a command, up to the next command."""
_GAP: Final = rf"(?:\s+|=|{_COMMA})"
_WORD: Final = r"(?!-|[\"'],)(?:\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|[^\s\"']+)"
_TOOLS: Final = (
    # Words (the text contains one of these), names of the tool, the tool's option for a password.
    (
        "mysql maria xtrabackup 7z",
        r"mysql\w*|maria(?:db|backup)[\w-]*|xtrabackup|7z[ar]?",
        r"([\s\"']-p)(?![\s\"'])[^\s\"']+|([\s\"']-p)(?:\"[^\"\s][^\"]*+\"|'[^'\s][^']*+')",
    ),
    (
        "sshpass login mongo",
        r"sshpass|login|mongo(?:sh|dump|restore|export|import)?",
        rf"([\s\"']-p{_GAP}?){_WORD}",
    ),
    ("redis valkey", r"redis-cli|valkey-cli", rf"([\s\"']-a{_GAP}?){_WORD}"),
    ("http xh", r"https?|xh", rf"([\s\"'](?:-a|--auth){_GAP}[\"']?[^\s:\"']*:)[^\s\"']+"),
    ("ldap", r"ldap[a-z]+", rf"([\s\"']-w{_GAP}?){_WORD}"),
    ("sqlcmd bcp zip", r"sqlcmd|bcp|zip|unzip", rf"([\s\"']-P{_GAP}?){_WORD}"),
    (
        "smbclient rpcclient net",
        r"smbclient|rpcclient|net",
        rf"([\s\"'](?:-U|--user){_GAP}[\"']?[^\s%\"']+%)[^\s\"']+",
    ),
    ("openssl", r"openssl", rf"([\s\"']-\w{{0,12}}pass(?:in|out)?{_GAP}[\"']?pass:)[^\s\"']+"),
)
_SHAPES: Final = (
    # Words and a pattern. The pattern is searched only in a text with one of the words, in any
    # case; without words it is searched in every text.
    ("begin", _PEM_KEY),  # also without its end
    ("", _KEY_LINE),
    ("authori cookie api-key", _HEADER),  # to the end of the line
    ("bearer", r"(?i)(\bbearer\s+)[^\s\"',;]+"),
    (
        "basic digest token",
        r"(\b(?:Basic|Digest|Token) +)(?=[A-Za-z]*+[0-9+/])[A-Za-z0-9+/]{12,}=*",
    ),
    ("hooks", _HOOK),
    ("-u --user --proxy-user --creds", _LOGIN),
    (_NAME_WORDS, _OPTION),
    ("://", _USER),
    ("://", _PASSWORD_OF_URL),
    ("://", _URL_QUERY),
    ("?", _QUERY),  # without a URL
    (_NAME_WORDS, _PAIR),  # name=value, name: value, "name": "value"
    ("value", _NAMED),
    ("</", _ELEMENT),
    (";", _CONNECTION),
    ("password", _NETRC),
    ("pass token secret api", _SENTENCE),
    ("eyj", _JWT),
    ("", _TOKENS),
    ("$", _HASH),
)


_compiled: Final = cache(re.compile)
"""Compiles a pattern when it is first searched: all patterns together take 20 ms."""


@cache
def _tool_pattern(names: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{names})(?:\.exe)?{_REST}")


def matches(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of the patterns; the groups of a match have the text before the secret."""
    lower = text.lower()
    for words, pattern in _SHAPES:
        if not words or any(word in lower for word in words.split()):
            yield from _compiled(pattern).finditer(text)
    for words, names, option in _TOOLS:
        if any(word in lower for word in words.split()):
            for command in _tool_pattern(names).finditer(text):
                yield from _compiled(option).finditer(text, command.start(), command.end())


REDACTED: Final = "[redacted]"
"""Text in place of a secret."""
_MAX_TEXT: Final = 4096
"""Characters of one text that are kept: this bounds the search, and no reason is longer."""
_SECRET_FIELD: Final = (
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|cookie|(?:user|device).?code|verifier"
    r"|(?:api|private|access).?key"
)
"""Names of form fields whose values are never recorded."""
_MIN_SECRET: Final = 6
"""Least characters of a remembered secret; a shorter value would be a part of many words."""
_MIN_START: Final = 3
"""Least characters of a secret's start that are removed at the end of a text: more may follow."""
_MIN_LINE: Final = 12
"""Least characters of a secret's line that is also removed without the other lines."""
_MAX_REMEMBERED: Final = 2000
"""Spellings of secrets that are remembered; a session of an editor adds a few."""


class _KnownSecrets(LastOnes[str, None]):
    """The spellings of secrets, in the order in which they were added."""

    _sorted: tuple[str, ...] = ()

    @property
    def longest_first(self) -> tuple[str, ...]:
        """Return the spellings, the longest first: a short one may be part of a long one."""
        in_order = self._sorted  # read once: `add` replaces the tuple, perhaps in another thread
        if len(in_order) != len(self):
            in_order = self._sorted = tuple(sorted(self, key=len, reverse=True))
        return in_order

    def add(self, values: Iterable[str]) -> None:
        self.update(dict.fromkeys(values))
        self._sorted = ()


_remembered: Final = _KnownSecrets(_MAX_REMEMBERED)
"""Secrets of the whole process, because the process has one log."""


def remember_secrets(values: Iterable[str]) -> None:
    """Have `scrub` remove ``values`` from now on, even if they look like ordinary text."""
    for value in values:
        if len(value) >= _MIN_SECRET:
            _remembered.add(spellings(value))


def spellings(value: str) -> Iterator[str]:
    """Yield the forms that a value has in texts: plain, quoted, escaped, in a URL, line by line."""
    from urllib.parse import quote, quote_plus  # here: most programs remember no secret

    for text in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE)):
        plain = text.encode("utf-8", "replace").decode()
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
            yield from (escaped, re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), escaped))


def scrub(text: str, limit: int = _MAX_TEXT) -> str:
    """Return ``text`` with `REDACTED` in place of every token, key and query string. A text longer
    than ``limit`` is cut; a note says how many characters are left out."""
    head = text if len(text) <= limit else cut(text, limit)
    clean = without(head, (*_remembered_spans(head), *_suspected_spans(head)))
    return clean if head is text else f"{clean} [{len(text) - len(head)} more characters]"


def cut(text: str, limit: int) -> str:
    """Return at most the first ``limit`` characters, up to the end of a word. Never cuts inside a
    remembered secret or a token, because half a secret would not be found."""
    longest = max(map(len, _remembered.longest_first[:1]), default=0)
    spans = tuple(_remembered_spans(text[: limit + longest]))
    end = text.rfind(" ", 0, limit)
    while starts := [start for start, stop in spans if start < end < stop]:
        end = text.rfind(" ", 0, min(starts))
    return text[: max(end, 0)]


def without(text: str, spans: Iterable[tuple[int, int]], begin: int = 0) -> str:
    """Return ``text`` from ``begin`` on, with `REDACTED` for ``spans``, which may overlap."""
    kept, at = "", begin
    for start, end in sorted(spans):
        if end > at:
            if start >= at or not kept:
                kept += text[at : max(start, at)] + REDACTED
            at = end
    return kept + text[at:]


def _remembered_spans(text: str) -> Iterator[tuple[int, int]]:
    for secret in _remembered.longest_first:
        yield from _occurrences(secret, text)


def _occurrences(secret: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)


def _suspected_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that look like a secret; in doubt, a span is yielded."""
    for match in matches(text):
        # The group of a match, the name before a value, stays in the text.
        yield (match.end(match.lastindex) if match.lastindex else match.start()), match.end()
    for match in _FRAGMENT.finditer(text):
        from codex_acp.transcript.plain_values import is_slug  # here: few texts have a fragment

        start, end = match.end(1), match.end()
        if not is_slug(text[start : min(end, start + 200)].rstrip(".,:;!)]}*`")):
            yield start, end


_UNFINISHED_LOGIN: Final = r"(://[^\s/@?#:]*:)(?=\d*[^\s/@?#\d])[^\s/@?#]+\Z"
"""Password at the end of a text, in a URL whose ``@`` is still to come. A port has only digits."""


def secret_spans(text: str, typed: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of secrets in ``text``, also of a secret whose rest may follow. Values that a
    person has ``typed`` are secrets, too."""
    yield from _suspected_spans(text)
    for match in re.finditer(_UNFINISHED_LOGIN, text):
        yield match.end(1), match.end()
    for secret in (*_remembered, *typed):
        yield from _occurrences(secret, text)
        first = secret[:_MIN_START]  # the text may end with the start of the secret
        at = text.find(first, max(0, len(text) - len(secret) + 1))
        while at >= 0 and not secret.startswith(text[at:]):
            at = text.find(first, at + 1)
        if at >= 0:
            yield at, len(text)


def without_remembered(value: JsonValue) -> JsonValue:
    """Return ``value`` without remembered secrets; a text that only looks like a secret stays."""
    if isinstance(value, str):
        for secret in _remembered.longest_first:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, list):
        return [without_remembered(item) for item in value]
    if isinstance(value, dict):
        return {name: without_remembered(item) for name, item in value.items()}
    return value


def scrub_fields(content: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields of a form with names and values scrubbed, and without secret fields."""
    return {
        scrub(name): REDACTED
        if re.search(_SECRET_FIELD, name) and not _counts_tokens(name, value)
        else scrub_json(value)
        for name, value in content.items()
    }


def _counts_tokens(name: str, value: JsonValue) -> bool:
    """Return whether a field counts the tokens of a language model, which is no secret."""
    if re.fullmatch(r"(?i)token_?usage", name):
        return isinstance(value, dict)
    return isinstance(value, int) and re.fullmatch(r"(?i)[a-z_]*tokens", name) is not None


def scrub_json(value: JsonValue) -> JsonValue:
    """Scrub all texts of ``value``, and remove the values of secret fields."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrub_json(item) for item in value]
    if isinstance(value, dict):
        return scrub_fields(value)
    return value
