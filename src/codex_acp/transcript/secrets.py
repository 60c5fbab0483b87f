"""PURE: tokens, keys and what a client gave as a secret are taken out of any text.

Owns what counts as a secret in a text. Patterns are compiled when the first text is looked at.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Final

from codex_acp._last_ones import LastOnes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codex_acp.jsonrpc.message import JsonValue

_NAME: Final = (
    r"(?:api|access|account|private|secret|auth|signing|encryption|master)[ _-]?key"
    r"|token|secret|password|passwd|passphrase|pwd|credentials?|signature|storepass|keypass"
    r"|secret[_-]?key[_-]?base|(?:user|device)[_-]?code|code[_-]?verifier"
    r"|(?<![a-z])(?:pass|pat|auth|otp|sig)(?==)"
)
"""Names whose value is a secret where they stand before ``=`` or ``:``."""
_NAME_LETTERS: Final = (
    "key token secret passw pwd passphrase credential signature storepass code pass= pat= auth="
    " otp= sig="
)
_VALUE: Final = r"(?:\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|(?!-|<[\w-]{1,40}>)[^\s\"',;]+)"
_COMMA: Final = r"[\"'],\s{0,8}(?=[\"'])"
"""Between the words of a command that is written as a list."""
_OPTION: Final = (
    rf"(?i)(?<![^\s\"'\[(])(--?(?:[\w-]{{0,40}}[_-])?(?:{_NAME})(?: +|{_COMMA})){_VALUE}"
)
"""An option of a command line, whose value is the next word."""
_LOGIN: Final = (
    rf"(?<![^\s\"'\[(])((?:-[uU](?:[ =]|{_COMMA})?"
    rf"|(?:--user|--proxy-user|--creds)(?:[ =]|{_COMMA}))"
    r"[\"']?[^\s:\"'-][^\s:\"']*:)[^\s\"']+"
)
"""``curl -u name:password``."""
_HOOK: Final = r"(?i)(hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[^\s\"'<>]+"
"""Addresses that are a secret by themselves."""
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
"""A line of a key that comes line by line; of a digest the letters are of one case."""
_HEADER: Final = (
    r"(?i)(?<![a-z])((?:proxy[-_])?authori[sz]ation|(?:set-)?cookie|x-api-key|api-key)(?![a-z])"
    r"(\W{0,3}(?:[:=]>?|[\"'] ?, ?(?=b?[\"'])) ?).+"
)
_NAMED: Final = (
    rf"(?i)([\"'](?:name|key)[\"']\s?[:=]\s?[\"'](?=[^\"']{{0,60}}(?:{_NAME}|authorization|cookie|key[\"']))"
    r"[^\"']{1,80}[\"']\s{0,20},?\s{0,20}[\"']value[\"']\s?[:=]\s?)"
    r"(?:\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?)"
)
"""``{"name": "API_KEY", "value": "..."}``, as protocols write variables and headers."""
_PAIR: Final = (
    rf"(?i)((?:{_NAME})(?:\\{{0,8}}[\"'])?\s{{0,3}}(?:[=:]>?|%3d)\s{{0,3}})"
    r"(?:\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|\\{1,8}[\"'][^\"'\\]*+|[^\s&\"',;]+)"
)
_ELEMENT: Final = rf"(?i)(<[\w:.-]{{0,40}}(?:{_NAME})[\w:.-]{{0,40}}>)[^<>]+(?=</)"
_CONNECTION: Final = r"(?i)(;\s{0,3}(?:password|pwd)\s{0,3}=)[^;\n\"']+"
"""Of a connection string, where a value goes on to the next semicolon."""
_USER: Final = r"(://)[^\s/@?#]+(?=@)"
_PASSWORD_OF_URL: Final = (
    r"(://[^\s/@?#:\"'<>]*+:)(?!\d{1,5}(?:[/?#\s]|$))(?:(?:(?!://)[^\s@\"'<>])*+@)+"
)
"""One that holds what should have been escaped: the last ``@`` is its end."""

# From one "://" to the next at most, so that a text full of them takes no longer.
_URL_QUERY: Final = r"(://(?:(?!://)[^\s?#\"'<>])*+\?)[^\s\"'<>]+"
_QUERY: Final = r"(\?)(?=[\w.%~-]++=)[^\s\"'<>]+"
_FRAGMENT: Final = re.compile(r"(://(?:(?!://)[^\s?#\"'<>])*+#)[^\s\"'<>]+")
"""It is one unless it names a place of the page."""
_NETRC: Final = (
    r"((?:\bmachine\s+\S+\s+(?:login\s+\S+\s+)?|(?m:^)default\s+login\s+\S+\s+)"
    r"(?:account\s+\S+\s+)?password\s+"
    r"|(?m:^)[ \t]*+login\s+(?!(?:and|or)\s)\S+\s+password\s+"
    r"|(?m:^)[ \t]++password[ \t]+(?=\S+[ \t]*$))\S+"
)
_SAID: Final = (
    r"(?i)(\b(?:password|passphrase|passcode|token|secret|api key) (?:is|was):? [\"'`]?)"
    r"(?!base\d|sha\d|md5|utf|[rhe]s\d|https?:|v?\d+(?:\W|$)|\d+[a-z]+\b)(?=[^\s\d]*+\d)(?=[^\sA-Za-z]*+[A-Za-z])[^\s\"'`]{6,}"
)
"""In a sentence; one without a digit cannot be told from "the password is invalid"."""
_JWT: Final = (
    r"(?<![A-Za-z0-9_-])(?:ops_)?eyJ[A-Za-z0-9_-]{4,}+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)*"
)
_TOKENS: Final = (
    r"(?<![A-Za-z0-9])(?:"
    # who asks a model
    r"sk-[A-Za-z0-9_-]{8,}|(?:sess|xai|pplx|tvly|ctx7sk)-(?:[a-z]{2,8}-)?[A-Za-z0-9]{16,}"
    r"|(?:hf|gsk|r8|pcsk|jina|e2b|ntn|figd|glsa|glc|sbp|npm|rubygems|dop_v1|doo_v1|dor_v1|dckr_pat"
    r"|lsv2_pt|lsv2_sk|pscale_tkn|pscale_pw|sntrys|sntryu|lin_api|whsec)_[A-Za-z0-9]{20,}"
    # where code is kept
    r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|gl(?:pat|dt|rt|ptt|cbt|soat|ft|imt|agent|ffct|oas)-[A-Za-z0-9_-]{20,}"
    r"|AT(?:ATT3|CTT3|BB)[A-Za-z0-9_=-]{20,}|pypi-[A-Za-z0-9_-]{20,}|oy2[a-z0-9]{43}\b"
    # clouds
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}"
    r"|GOCSPX-[A-Za-z0-9_-]{16,}|1//0[A-Za-z0-9_-]{24,}|[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{30,}"
    r"|(?<![+/])[A-Za-z0-9+/]{86}==|hv[sbr]\.[A-Za-z0-9_-]{20,}|tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,}"
    r"|dapi[0-9a-f]{32}|dp\.[a-z]{2,8}\.[A-Za-z0-9]{30,}|PMAK-[a-f0-9]{24}-[a-f0-9]{20,}"
    # who sends and who pays
    r"|xox[a-z]-[A-Za-z0-9-]{8,}|xapp-\d-[A-Za-z0-9-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|SK[0-9a-f]{32}\b|key-[0-9a-f]{32}\b"
    r"|[0-9a-f]{32}-us\d{1,2}\b|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}|sq0(?:atp|csp)-[\w-]{20,}"
    r"|\d{8,10}:AA[A-Za-z0-9_-]{32,}|[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"
    r"|NRAK-[A-Z0-9]{20,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|AGE-SECRET-KEY-1[A-Z0-9]{20,})"
)
"""Tokens of known services, by their published prefix or form."""
_HASH: Final = r"\$(?:1|2[aby]|5|6|y|argon2(?:id|i|d))\$[./A-Za-z0-9$=,+]{20,}"
"""Of a password, as systems keep it."""
_REST: Final = r"(?=[\s\"'])(?:(?:[^\n;|&\"']|\"(?:[^\"\\\n]|\\.)*+\"?|'[^'\n]*+'?)*+)"
"""Of a command, to the next."""
_GAP: Final = rf"(?:\s+|=|{_COMMA})"
_WORD: Final = r"(?!-|[\"'],)(?:\"(?:[^\"\\]|\\.)*+\"?|'[^']*+'?|[^\s\"']+)"
_TOOLS: Final = (
    # What it is called, and the option behind which its password stands.
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
    # The pattern is looked for where one of the words before it stands, in whatever case.
    # None: always.
    ("begin", _PEM_KEY),  # also one that was cut off
    ("", _KEY_LINE),
    ("authori cookie api-key", _HEADER),  # to the end of its line
    ("bearer", r"(?i)(\bbearer\s+)[^\s\"',;]+"),
    (
        "basic digest token",
        r"(\b(?:Basic|Digest|Token) +)(?=[A-Za-z]*+[0-9+/])[A-Za-z0-9+/]{12,}=*",
    ),
    ("hooks", _HOOK),
    ("-u --user --proxy-user --creds", _LOGIN),
    (_NAME_LETTERS, _OPTION),
    ("://", _USER),
    ("://", _PASSWORD_OF_URL),
    ("://", _URL_QUERY),
    ("?", _QUERY),  # on its own
    (_NAME_LETTERS, _PAIR),  # name=value, name: value, "name": "value"
    ("value", _NAMED),
    ("</", _ELEMENT),
    (";", _CONNECTION),
    ("password", _NETRC),
    ("pass token secret api", _SAID),
    ("eyj", _JWT),
    ("", _TOKENS),
    ("$", _HASH),
)


@cache
def _patterns() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    return tuple((tuple(letters.split()), re.compile(pattern)) for letters, pattern in _SHAPES)


@cache
def _tools() -> tuple[tuple[tuple[str, ...], re.Pattern[str], re.Pattern[str]], ...]:
    return tuple(
        (
            tuple(letters.split()),
            re.compile(rf"(?<![\w.-])(?:{tool})(?:\.exe)?{_REST}"),
            re.compile(option),
        )
        for letters, tool, option in _TOOLS
    )


def matches(text: str) -> Iterator[re.Match[str]]:
    """Yield matches in ``text`` that look like a secret, each with the words before it."""
    lower = text.lower()
    for letters, pattern in _patterns():
        if not letters or any(each in lower for each in letters):
            yield from pattern.finditer(text)
    for letters, tool, option in _tools():
        if any(each in lower for each in letters):
            for command in tool.finditer(text):
                yield from option.finditer(text, command.start(), command.end())


REDACTED: Final = "[redacted]"
"""Stands where a secret was."""
_MAX_TEXT: Final = 4096
"""Characters of one text that are recorded: more than any reason needs, and a bound on the work."""
_SECRET_FIELD: Final = (
    r"(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|auth(?!or)|cookie|(?:user|device).?code|verifier"
    r"|(?:api|private|access).?key"
)
"""A form field with such a name has no recorded value, whatever was asked for."""
_MIN_SECRET: Final = 6
"""Characters of a value that is told as a secret; a shorter one would be in every other word."""
_MIN_BEGUN: Final = 3
"""Characters of one that are taken out where a text ends with them: the rest may follow."""
_MIN_LINE: Final = 12
"""Characters of a line of such a value that is taken out by itself: a key, no word of a text."""
_MAX_KNOWN: Final = 2000
"""Forms of values that are remembered; each session of an editor brings a handful."""


class _Known(LastOnes[str, None]):
    """The longest first when they are looked for, as one may be a part of another."""

    _ordered: tuple[str, ...] = ()

    @property
    def ordered(self) -> tuple[str, ...]:
        """Made anew when something was told or forgotten."""
        if len(self._ordered) != len(self):
            self._ordered = tuple(sorted(self, key=len, reverse=True))
        return self._ordered

    def tell(self, values: Iterable[str]) -> None:
        """Remember these."""
        self.update(dict.fromkeys(values))
        self._ordered = ()


_known: Final = _Known(_MAX_KNOWN)
"""Of the whole process, as its log is; in the order in which they were told."""


def remember_secrets(values: Iterable[str]) -> None:
    """Have `scrub` take these out from now on, however they look: a client gave them as secrets."""
    for value in values:
        if len(value) >= _MIN_SECRET:
            _known.tell(spellings(value))


def spellings(value: str) -> Iterator[str]:
    """Yield how a value may stand in a text: as it is, quoted, escaped, in a URL, by lines."""
    from urllib.parse import quote, quote_plus  # most programs are told none

    for text in (value, *(line for line in value.splitlines() if len(line) >= _MIN_LINE)):
        plain = text.encode("utf-8", "replace").decode()
        yield from (text, repr(text)[1:-1], json.dumps(text)[1:-1])
        yield json.dumps(plain, ensure_ascii=False)[1:-1]
        for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
            yield from (escaped, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), escaped))


def scrub(text: str, limit: int = _MAX_TEXT) -> str:
    """Return ``text`` with every token, key and query string replaced by `REDACTED`.

    Of one that is longer than ``limit`` the beginning, and how much was left out.
    """
    head = text if len(text) <= limit else cut(text, limit)
    made = without(head, (*_remembered_spans(head), *_suspected_spans(head)))
    return made if head is text else f"{made} [{len(text) - len(head)} more characters]"


def cut(text: str, limit: int) -> str:
    """Return at most the first ``limit`` characters, to the end of a word.

    Half a token is not known for one, nor is half of what was told, which may have spaces.
    """
    seen = text[: limit + max(map(len, _known.ordered[:1]), default=0)]
    spans = tuple(_remembered_spans(seen))
    end = text.rfind(" ", 0, limit)
    while begun := [start for start, stop in spans if start < end < stop]:
        end = text.rfind(" ", 0, min(begun))
    return text[: max(end, 0)]


def without(text: str, spans: Iterable[tuple[int, int]], begin: int = 0) -> str:
    """Return ``text`` from ``begin`` on, with `REDACTED` for all ``spans``; they may overlap."""
    made, at = "", begin
    for start, end in sorted(spans):
        if end > at:
            if start >= at or not made:
                made += text[at : max(start, at)] + REDACTED
            at = end
    return made + text[at:]


def _remembered_spans(text: str) -> Iterator[tuple[int, int]]:
    for secret in _known.ordered:
        yield from _occurrences(secret, text)


def _occurrences(secret: str, text: str) -> Iterator[tuple[int, int]]:
    at = text.find(secret)
    while at >= 0:
        yield at, at + len(secret)
        at = text.find(secret, at + 1)


def _suspected_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans that look like a secret: rather too many than too few."""
    for found in matches(text):
        # What stays, the name before a value, is its groups.
        yield (found.end(found.lastindex) if found.lastindex else found.start()), found.end()
    for found in _FRAGMENT.finditer(text):
        from codex_acp.transcript.plain_values import is_anchor  # few texts have one

        start, end = found.end(1), found.end()
        if not is_anchor(text[start : min(end, start + 200)].rstrip(".,:;!)]}*`")):
            yield start, end


_UNFINISHED_LOGIN: Final = r"(://[^\s/@?#:]*:)(?=\d*[^\s/@?#\d])[^\s/@?#]+\Z"
"""The password of a URL that has not come to its ``@``; a port has digits alone."""


def secret_spans(text: str, typed: Iterable[str] = ()) -> Iterator[tuple[int, int]]:
    """Yield where a secret stands in ``text``, or begins at its end: for one that comes in pieces.

    What a person has ``typed`` is one, too.
    """
    yield from _suspected_spans(text)
    for found in re.finditer(_UNFINISHED_LOGIN, text):
        yield found.end(1), found.end()
    for secret in (*_known, *typed):
        yield from _occurrences(secret, text)
        first = secret[:_MIN_BEGUN]
        at = text.find(first, max(0, len(text) - len(secret) + 1))
        while at >= 0 and not secret.startswith(text[at:]):
            at = text.find(first, at + 1)
        if at >= 0:
            yield at, len(text)


def without_told(value: JsonValue) -> JsonValue:
    """Return ``value`` without remembered secrets: the rest, such as a link, is for the person."""
    if isinstance(value, str):
        for secret in _known.ordered:
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, list):
        return [without_told(one) for one in value]
    if isinstance(value, dict):
        return {name: without_told(one) for name, one in value.items()}
    return value


def scrub_fields(content: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields of a form, by name, scrubbed."""
    return {
        scrub(name): REDACTED
        if re.search(_SECRET_FIELD, name) and not _counts_tokens(name, value)
        else scrub_json(value)
        for name, value in content.items()
    }


def _counts_tokens(name: str, value: JsonValue) -> bool:
    """Return whether the tokens of a model are counted there, which is no secret."""
    if re.fullmatch(r"(?i)token_?usage", name):
        return isinstance(value, dict)
    return isinstance(value, int) and re.fullmatch(r"(?i)[a-z_]*tokens", name) is not None


def scrub_json(value: JsonValue) -> JsonValue:
    """Scrub all texts of ``value``, and leave out what stands under a secret's name."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [scrub_json(one) for one in value]
    if isinstance(value, dict):
        return scrub_fields(value)
    return value
