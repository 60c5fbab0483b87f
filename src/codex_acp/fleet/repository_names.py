"""PURE: which repositories and revisions may be named; what may not is told in words.

A name must not be taken for an option by git or ssh, nor choose a program to be run.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from codex_acp.transcript.secrets import scrub

SCHEMES: Final = ("https", "ssh", "file")

_SCP: Final = re.compile(r"(?:[\w.][\w.-]*@)?[\w.][\w.-]*:(?!:)[^:].*")
"""``user@host:path``, as ssh and git have it."""

_USER: Final = "CODEX_ACP_GIT_USER"
_PASSWORD: Final = "CODEX_ACP_GIT_PASSWORD"

_GIVE_LOGIN: Final = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n"'
    f' "${_USER}" "${_PASSWORD}"; }}; f'
)
"""A credential helper, run by a shell of which ``printf`` is a part: see gitcredentials(7)."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def problem_of_repository(repository: str) -> str | None:
    """Return the problem of a repository's name; None if it may be fetched."""
    if not repository or _CONTROL.search(repository):
        return "a repository is a URL or a path, without control characters"
    if repository.startswith("-"):
        return f"the repository {_shown(repository)} begins with '-', which git takes for an option"
    if "::" in repository.partition("/")[0]:
        return f"the repository {_shown(repository)} names a transport helper, which is a program"
    if "://" in repository:
        return _problem_of_url(repository)
    return None


def _problem_of_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return "the repository is no URL that can be read; a password in it is percent-encoded"
    if parts.scheme not in SCHEMES:
        return f"a repository is fetched by {', '.join(SCHEMES)}, not by {parts.scheme!r}"
    if host.startswith("-") or (parts.username or "").startswith("-"):
        return "the repository's host begins with '-', which ssh takes for an option"
    if parts.password is not None and parts.scheme != "https":
        return f"the repository has a password, which {parts.scheme} does not use; take it out"
    if _CONTROL.search(unquote(parts.netloc)):
        return "the repository's user or password has control characters"
    return None


def without_login(repository: str) -> tuple[str, dict[str, str]]:
    """The repository as a command line may show it, and the environment that gives git its login.

    Every user of a machine can read the command lines of all processes. git asks for the login of
    this host alone, so that no redirect takes it elsewhere, and no other helper stores it.
    """
    parts = urlsplit(repository)
    login, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https" or not at:
        return repository, {}
    user, colon, password = (unquote(part) for part in login.partition(":"))
    key = f"credential.https://{host}"
    settings = [(f"{key}.username", user)]
    if colon:
        settings = [(f"{key}.helper", ""), (f"{key}.helper", _GIVE_LOGIN)]
    env = {"GIT_CONFIG_COUNT": str(len(settings)), _USER: user, _PASSWORD: password}
    for number, (name, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return repository.replace(f"{login}@", "", 1), env


def _shown(repository: str) -> str:
    return repr(scrub(repository))


def is_path(repository: str) -> bool:
    """Whether it is a directory's name, and no URL."""
    return "://" not in repository and not _SCP.fullmatch(repository)


def problem_of_revision(revision: str) -> str | None:
    """Return the problem of a revision's name; None if git may be asked for it."""
    if not revision or re.search(r"[\s\x00-\x1f\x7f]", revision):
        return "a revision is a branch, a tag or a commit, without spaces"
    if revision.startswith("-"):
        return f"the revision {revision!r} begins with '-', which git takes for an option"
    if ".." in revision:
        return f"the revision {revision!r} is a range; name one commit"
    return None
