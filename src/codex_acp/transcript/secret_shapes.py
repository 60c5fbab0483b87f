"""PURE: what secrets look like in a text: the patterns, each linear in the length of the text.

Of a match the part behind the last group is the secret; what its groups take stays. A pattern
begins where nothing before it has been read for the same pattern, or reads a bounded number of
characters, so that no text makes it slow.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from codex_acp.transcript.plain_values import is_anchor

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def fragments(text: str) -> Iterator[tuple[int, int]]:
    """Where the fragments of addresses stand, but for those that name a place of their page."""
    for found in _FRAGMENT.finditer(text):
        start, end = found.end(1), found.end()
        if not is_anchor(text[start : min(end, start + 200)].rstrip(".,:;!)]}*`")):
            yield start, end
