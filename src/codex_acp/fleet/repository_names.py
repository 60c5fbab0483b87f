"""PURE: which repositories and revisions may be named; what may not is told in words.

A name must not be taken for an option by git or ssh, nor choose a program to be run.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = ("https", "ssh", "file")

_SCP: Final = re.compile(r"(?:[\w.][\w.-]*@)?[\w.][\w.-]*:(?!:)[^:].*")
"""``user@host:path``, as ssh and git have it."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def problem_of_repository(repository: str) -> str | None:
    """What is wrong with it; None if it may be fetched."""
    if not repository or _CONTROL.search(repository):
        return "a repository is a URL or a path, without control characters"
    if repository.startswith("-"):
        return f"the repository {repository!r} begins with '-', which git takes for an option"
    if "::" in repository.partition("/")[0]:
        return f"the repository {repository!r} names a transport helper, which is a program"
    if "://" in repository:
        return _problem_of_url(repository)
    return None


def _problem_of_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return "the repository is no URL that can be read"
    if parts.scheme not in SCHEMES:
        return f"a repository is fetched by {', '.join(SCHEMES)}, not by {parts.scheme!r}"
    if host.startswith("-") or (parts.username or "").startswith("-"):
        return "the repository's host begins with '-', which ssh takes for an option"
    return None


def is_path(repository: str) -> bool:
    """Whether it is a directory's name, and no URL."""
    return "://" not in repository and not _SCP.fullmatch(repository)


def problem_of_revision(revision: str) -> str | None:
    """What is wrong with it; None if git may be asked for it."""
    if not revision or re.search(r"[\s\x00-\x1f\x7f]", revision):
        return "a revision is a branch, a tag or a commit, without spaces"
    if revision.startswith("-"):
        return f"the revision {revision!r} begins with '-', which git takes for an option"
    if ".." in revision:
        return f"the revision {revision!r} is a range; name one commit"
    return None
