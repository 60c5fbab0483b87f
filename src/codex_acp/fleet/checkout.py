"""A worktree for one task: its repository is fetched once on a machine, and checked out for it.

The repository is a copy without a configuration, hooks or submodules of anybody's; nothing that a
revision holds is trusted for that it was checked out. Where a worktree was left by an attempt that
was interrupted, the next one of the same task finds it again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from codex_acp._files import read_regular
from codex_acp.fleet.changes import Baseline
from codex_acp.fleet.errors import CheckoutError
from codex_acp.fleet.git_commands import GitFailed, git
from codex_acp.fleet.private_files import (
    FileLock,
    make_private,
    read_json,
    remove_tree,
    write_private,
)
from codex_acp.transcript.secrets import scrub

if TYPE_CHECKING:
    from pathlib import Path

    from codex_acp.fleet.jobs import Job

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
        try:
            parts = urlsplit(repository)
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


LOCK_POLL_SECONDS: Final = 0.05
MOST_TREES: Final = 100
"""Of one task on one machine: one for each attempt whose worker still has it."""
_FETCH: Final = ("--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force")
_HEADS: Final = "+refs/heads/*:refs/remotes/origin/*"
_TAGS: Final = "+refs/tags/*:refs/tags/*"
_HEAD: Final = "+HEAD:refs/remotes/origin/HEAD"
_CONFIG: Final = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_PATHS: Final[dict[str, str]] = {"encoding": "utf-8", "errors": "surrogateescape"}
_NOT_OURS: Final = ("config", "config.worktree", "commondir", "hooks", "info", "objects/info")
"""Files of a repository that decide which programs git runs; ours has `_CONFIG` alone."""


@dataclass(slots=True)
class Checkout:
    """A worktree that a task has for itself."""

    path: Path
    commit: str
    baseline: Baseline
    administration: Path
    """Where the repository keeps what it knows of the worktree."""
    left_over: bool
    """Whether an earlier attempt has worked in it."""
    lock: FileLock


class Checkouts:
    """The repositories and worktrees below ``root``, for this user's processes on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._commits: dict[tuple[str, str, str], str] = {}
        """Commit of each revision of a repository, looked up once for a run."""

    async def make(self, job: Job, *, again: bool) -> Checkout:
        """Make the worktree of a job; ``again``: find that of an earlier attempt. Raises
        CheckoutError."""
        assert job.repository is not None
        problem = problem_of_repository(job.repository)
        problem = problem or (problem_of_revision(job.revision) if job.revision else None)
        if problem is not None:
            raise CheckoutError(problem)
        place = self._root / job.fleet_id
        try:
            trees = make_private(place / "trees")
            repositories = make_private(place / "repositories")
            tree, lock = await self._free_tree(trees, job.name)
        except OSError as error:
            raise CheckoutError(f"{place} cannot be used: {error.strerror or error}") from error
        wanted = {"repository": scrub(job.repository), "revision": job.revision}
        repository = repositories / f"{_digest(job.repository)}.git"
        try:
            with lock.released_on_error():
                found = self._left(tree, repository, wanted, lock) if again else None
                async with _Locked(repository.with_suffix(".lock")):
                    await asyncio.to_thread(_make_ours_again, repository)
                    return found or await self._fresh(job, repository, tree, lock, wanted)
        except OSError as error:
            why = error.strerror or str(error)
            raise CheckoutError(f"the worktree of {job.task_id!r} cannot be made: {why}") from error

    async def remove(self, checkout: Checkout) -> None:
        """The task has its outcome: nobody needs the worktree any more."""
        await asyncio.to_thread(_remove, checkout.path, checkout.administration)
        checkout.lock.release(remove=True)

    async def _free_tree(self, trees: Path, name: str) -> tuple[Path, FileLock]:
        """Return a worktree that no worker has, and its lock."""
        for number in range(1, MOST_TREES):
            tree = trees / (name if number == 1 else f"{name}@{number}")
            lock = FileLock(trees / f"{tree.name}~lock")
            if lock.acquire():
                return tree, lock
        raise CheckoutError(f"{MOST_TREES} workers have a worktree of {name!r} already")

    def _left(
        self, tree: Path, repository: Path, wanted: dict[str, str | None], lock: FileLock
    ) -> Checkout | None:
        try:
            noted = read_json(_note(tree))
        except (OSError, ValueError):
            return None
        if not isinstance(noted, dict) or not tree.is_dir() or tree.is_symlink():
            return None
        if {key: noted.get(key) for key in wanted} != wanted:
            return None
        # It may lie where an agent can write, and so says nothing that is not looked at.
        commit, name = str(noted.get("commit")), str(noted.get("administration"))
        if not _is_commit(commit) or not name.replace("-", "").replace("_", "").isalnum():
            return None
        administration = repository / "worktrees" / name
        return Checkout(
            tree, commit, _baseline(tree, repository, commit), administration, True, lock
        )

    async def _fresh(
        self, job: Job, repository: Path, tree: Path, lock: FileLock, wanted: dict[str, str | None]
    ) -> Checkout:
        assert job.repository is not None
        await asyncio.to_thread(_remove, tree, None)
        meant = (job.repository, job.run_id, job.revision or "")
        commit = self._commits.get(meant) or await self._commit(job, repository)
        self._commits[meant] = commit
        administration = repository / "worktrees" / _digest(tree.name)
        try:
            await asyncio.to_thread(_set_up_worktree, administration, tree, commit)
            where = {"GIT_DIR": str(administration), "GIT_WORK_TREE": str(tree)}
            await git("read-tree", "--reset", "-u", commit, env=where, cwd=tree)
        except BaseException:
            await asyncio.to_thread(_remove, tree, administration)
            raise
        baseline = _baseline(tree, repository, commit)
        baseline = await asyncio.to_thread(baseline.set_up, administration / "index")
        note = json.dumps(wanted | {"commit": commit, "administration": administration.name})
        _note(tree).write_text(note, encoding="utf-8")
        return Checkout(tree, commit, baseline, administration, False, lock)

    async def _commit(self, job: Job, repository: Path) -> str:
        """The commit that is meant; fetches what is not here yet."""
        assert job.repository is not None
        fetched = repository / "fetched-for"
        if not (repository / "HEAD").exists():
            make_private(repository)
            await git("init", "--bare", "--quiet", "--template=", "--", str(repository))
        known = ""
        with suppress(OSError, ValueError):
            known = read_regular(fetched, 1000).decode(errors="replace")
        revision = job.revision or "HEAD"
        if _is_commit(revision) or known == job.run_id:
            commit = await _resolved(repository, revision)
            if commit is not None:
                return commit
        if known != job.run_id:
            try:
                await _fetch(repository, job.repository, _HEADS, _TAGS, _HEAD)
            except GitFailed:
                # One whose HEAD names no branch that is there; or it is not there at all.
                await _fetch(repository, job.repository, _HEADS, _TAGS)
            fetched.unlink(missing_ok=True)  # an agent may have made it lead to elsewhere
            write_private(fetched, job.run_id.encode())
            commit = await _resolved(repository, revision)
            if commit is not None:
                return commit
        if _is_commit(revision):  # one that no branch leads to
            await _fetch(repository, job.repository, revision)
            commit = await _resolved(repository, revision)
            if commit is not None:
                return commit
        where = scrub(job.repository)
        raise CheckoutError(f"{where} has no revision {revision!r}; name a branch, tag or commit")


def _set_up_worktree(administration: Path, tree: Path, commit: str) -> None:
    """Source: gitrepository-layout(5), ``worktrees/<id>``."""
    _remove(tree, administration)  # left by one that was killed
    for folder in (administration, tree):
        make_private(folder)
    (tree / ".git").write_text(f"gitdir: {administration}\n", **_PATHS)
    (administration / "gitdir").write_text(f"{tree / '.git'}\n", **_PATHS)
    (administration / "commondir").write_text("../..\n", **_PATHS)
    (administration / "HEAD").write_text(f"{commit}\n", **_PATHS)


def _digest(repository: str) -> str:
    return hashlib.sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _baseline(tree: Path, repository: Path, commit: str) -> Baseline:
    object_format = "sha256" if len(commit) == 64 else "sha1"
    return Baseline(tree, _scratch(tree), repository / "objects", commit, object_format)


def _is_commit(revision: str) -> bool:
    return len(revision) in (40, 64) and not set(revision) - set("0123456789abcdef")


def _note(tree: Path) -> Path:
    """A ``~`` stands in no task's name before a word, so that no other tree has this name."""
    return tree.with_name(f"{tree.name}~json")


def _scratch(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}~git")


def _remove(tree: Path, administration: Path | None) -> None:
    _note(tree).unlink(missing_ok=True)
    for folder in (tree, _scratch(tree), administration):
        if folder is not None and folder.exists():
            remove_tree(folder)


def _make_ours_again(repository: Path) -> None:
    """Remove what an agent may have written into a repository: below /tmp its sandbox lets it. An
    agent that runs meanwhile can be quicker: the default is elsewhere."""
    if not (repository / "HEAD").exists():
        return
    for name in _NOT_OURS:
        found = repository / name
        if found.is_dir() and not found.is_symlink():
            remove_tree(found)
        else:
            found.unlink(missing_ok=True)
    write_private(repository / "config", _CONFIG)


async def _resolved(repository: Path, revision: str) -> str | None:
    names = [revision] if _is_commit(revision) else []
    names = names or [f"refs/remotes/origin/{revision}", f"refs/tags/{revision}", revision]
    words = ("--verify", "--quiet", "--end-of-options")
    for name in names:
        try:
            found = await git(
                "rev-parse", *words, f"{name}^{{commit}}", env={"GIT_DIR": str(repository)}
            )
        except GitFailed:
            continue
        commit = found.decode().split()[-1]
        if _is_commit(commit):
            return commit
    return None


async def _fetch(repository: Path, url: str, *what: str) -> None:
    shown, login = without_login(url)
    await git(
        "fetch",
        *(*_FETCH, "--end-of-options", shown, *what),
        env={"GIT_DIR": str(repository), **login},
        users_own=True,
    )


class _Locked:
    """Alone with a repository, among all processes of this machine."""

    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path)

    async def __aenter__(self) -> None:
        while not self._lock.acquire():  # noqa: ASYNC110 - it is of other processes, too
            await asyncio.sleep(LOCK_POLL_SECONDS)

    async def __aexit__(self, *_exc: object) -> None:
        self._lock.release()
