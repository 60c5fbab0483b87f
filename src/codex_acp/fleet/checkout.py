"""Make the worktree of a task: fetch its repository once per machine and run, and check it out.

Our copy of the repository has no hooks, no submodules and no configuration but our own. A checkout
makes no file of a revision trusted. The next attempt of a task uses the worktree that an
interrupted attempt left.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from contextlib import asynccontextmanager, suppress
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
    from collections.abc import AsyncIterator
    from pathlib import Path

    from codex_acp.fleet.jobs import Job

SCHEMES: Final = ("https", "ssh", "file")
_SCP: Final = re.compile(r"(?:[\w.][\w.-]*@)?[\w.][\w.-]*:(?!:)[^:].*")
"""``user@host:path``, the short form of an ssh URL."""
_USER: Final = "CODEX_ACP_GIT_USER"
_PASSWORD: Final = "CODEX_ACP_GIT_PASSWORD"
_GIVE_LOGIN: Final = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n"'
    f' "${_USER}" "${_PASSWORD}"; }}; f'
)
"""A credential helper, which git runs in a shell with a builtin ``printf``: gitcredentials(7)."""
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f]")


def problem_of_repository(repository: str) -> str | None:
    """Return the problem of a repository's URL or path; None if git may fetch it."""
    if not repository or _CONTROL_CHARACTERS.search(repository):
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
        if _CONTROL_CHARACTERS.search(unquote(parts.netloc)):
            return "the repository's user or password has control characters"
    return None


def without_login(repository: str) -> tuple[str, dict[str, str]]:
    """Return the URL without its login, for the command line, and the environment with the login.

    Every user of a machine can read the command lines of all processes. git uses the login for this
    host alone, not after a redirect to another host, and gives it to no other credential helper.
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
    """Return whether ``repository`` is a path and no URL."""
    return "://" not in repository and not _SCP.fullmatch(repository)


def problem_of_revision(revision: str) -> str | None:
    """Return the problem of a revision's name; None if git may look it up."""
    if not revision or re.search(r"[\s\x00-\x1f\x7f]", revision):
        return "a revision is a branch, a tag or a commit, without spaces"
    if revision.startswith("-"):
        return f"the revision {revision!r} begins with '-', which git takes for an option"
    if ".." in revision:
        return f"the revision {revision!r} is a range; name one commit"
    return None


LOCK_POLL_SECONDS: Final = 0.05
MOST_TREES: Final = 100
"""Worktrees of one task on one machine: one for each worker that still has one locked."""
_FETCH_OPTIONS: Final = (
    "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force",
    "--prune",  # a branch that is gone may stand where a new one belongs, like x and x/y
)  # fmt: skip
_HEADS: Final = "+refs/heads/*:refs/remotes/origin/*"
_TAGS: Final = "+refs/tags/*:refs/tags/*"
_HEAD: Final = "+HEAD:refs/remotes/origin/HEAD"
_CONFIG: Final = b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_PATH_ENCODING: Final[dict[str, str]] = {"encoding": "utf-8", "errors": "surrogateescape"}
_UNTRUSTED: Final = ("config", "config.worktree", "commondir", "hooks", "info", "objects/info")
"""Files of a repository that can make git run programs; ours has only a ``config``, `_CONFIG`."""


@dataclass(slots=True)
class Checkout:
    """The worktree of one task."""

    path: Path
    commit: str
    baseline: Baseline
    administration: Path
    """The repository's directory about the worktree, ``worktrees/NAME``."""
    left_over: bool
    """Whether an earlier attempt has left the worktree."""
    lock: FileLock
    """Lock of the worktree, which keeps other workers out."""


class Checkouts:
    """The repositories and worktrees below ``root``, for this user's processes on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._commits: dict[tuple[str, str, str], str] = {}
        """Commit of each repository, run and revision, so that a run looks each up once."""

    async def make(self, job: Job, *, again: bool) -> Checkout:
        """Make the worktree of a job; with ``again``, use the one that an earlier attempt left.
        Raises CheckoutError."""
        assert job.repository is not None
        problem = problem_of_repository(job.repository)
        if problem is None and job.revision:
            problem = problem_of_revision(job.revision)
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
                left = self._left_tree(tree, repository, wanted, lock) if again else None
                async with _locked(repository):
                    await asyncio.to_thread(_remove_untrusted, repository)
                    return left or await self._new_tree(job, repository, tree, lock, wanted)
        except OSError as error:
            why = error.strerror or str(error)
            raise CheckoutError(f"the worktree of {job.task_id!r} cannot be made: {why}") from error

    async def remove(self, checkout: Checkout) -> None:
        """Remove a worktree and its lock."""
        await asyncio.to_thread(_remove, checkout.path, checkout.administration)
        checkout.lock.release(remove=True)

    async def _free_tree(self, trees: Path, name: str) -> tuple[Path, FileLock]:
        """Lock a worktree that no worker has locked; return its path and lock."""
        for number in range(1, MOST_TREES):
            tree = trees / (name if number == 1 else f"{name}@{number}")
            lock = FileLock(trees / f"{tree.name}~lock")
            if lock.acquire():
                return tree, lock
        raise CheckoutError(f"{MOST_TREES} workers have a worktree of {name!r} already")

    def _left_tree(
        self, tree: Path, repository: Path, wanted: dict[str, str | None], lock: FileLock
    ) -> Checkout | None:
        """Return the worktree that an earlier attempt left, if it has the wanted revision."""
        try:
            note = read_json(_note_of(tree))
        except (OSError, ValueError):
            return None
        if not isinstance(note, dict) or not tree.is_dir() or tree.is_symlink():
            return None
        if {key: note.get(key) for key in wanted} != wanted:
            return None
        # An agent may have written the note, so check its values.
        commit, name = str(note.get("commit")), str(note.get("administration"))
        if not _is_commit(commit) or not name.replace("-", "").replace("_", "").isalnum():
            return None
        administration = repository / "worktrees" / name
        return Checkout(
            tree, commit, _baseline(tree, repository, commit), administration, True, lock
        )

    async def _new_tree(
        self, job: Job, repository: Path, tree: Path, lock: FileLock, wanted: dict[str, str | None]
    ) -> Checkout:
        """Check the job's revision out into a new worktree."""
        assert job.repository is not None
        await asyncio.to_thread(_remove, tree, None)
        key = (job.repository, job.run_id, job.revision or "")
        commit = self._commits.get(key) or await self._find_commit(job, repository)
        self._commits[key] = commit
        administration = repository / "worktrees" / _digest(tree.name)
        try:
            await asyncio.to_thread(_set_up_worktree, administration, tree, commit)
            env = {"GIT_DIR": str(administration), "GIT_WORK_TREE": str(tree)}
            await git("read-tree", "--reset", "-u", commit, env=env, cwd=tree)
        except BaseException:
            await asyncio.to_thread(_remove, tree, administration)
            raise
        baseline = _baseline(tree, repository, commit)
        baseline = await asyncio.to_thread(baseline.set_up, administration / "index")
        note = json.dumps(wanted | {"commit": commit, "administration": administration.name})
        _note_of(tree).write_text(note, encoding="utf-8")
        return Checkout(tree, commit, baseline, administration, False, lock)

    async def _find_commit(self, job: Job, repository: Path) -> str:
        """Return the commit of the job's revision; fetch the repository if necessary."""
        assert job.repository is not None
        fetched = repository / "fetched-for"  # has the id of the run that fetched last
        if not (repository / "HEAD").exists():
            make_private(repository)
            await git("init", "--bare", "--quiet", "--template=", "--", str(repository))
        fetched_for = ""
        with suppress(OSError, ValueError):
            fetched_for = read_regular(fetched, 1000).decode(errors="replace")
        revision, commit = job.revision or "HEAD", None
        if _is_commit(revision) or fetched_for == job.run_id:
            commit = await _resolve(repository, revision)
        if commit is None and fetched_for != job.run_id:
            try:
                await _fetch(repository, job.repository, _HEADS, _TAGS, _HEAD)
            except GitFailed:
                # Its HEAD names no branch, or the repository does not exist.
                await _fetch(repository, job.repository, _HEADS, _TAGS)
            fetched.unlink(missing_ok=True)  # an agent may have made it a link
            write_private(fetched, job.run_id.encode())
            commit = await _resolve(repository, revision)
        if commit is None and _is_commit(revision):  # no branch and no tag contains it
            await _fetch(repository, job.repository, revision)
            commit = await _resolve(repository, revision)
        if commit is not None:
            return commit
        where = scrub(job.repository)
        raise CheckoutError(f"{where} has no revision {revision!r}; name a branch, tag or commit")


def _set_up_worktree(administration: Path, tree: Path, commit: str) -> None:
    """Make the files of a worktree. Source: gitrepository-layout(5), ``worktrees/<id>``."""
    _remove(tree, administration)  # a killed worker may have left them
    for folder in (administration, tree):
        make_private(folder)
    (tree / ".git").write_text(f"gitdir: {administration}\n", **_PATH_ENCODING)
    (administration / "gitdir").write_text(f"{tree / '.git'}\n", **_PATH_ENCODING)
    (administration / "commondir").write_text("../..\n", **_PATH_ENCODING)
    (administration / "HEAD").write_text(f"{commit}\n", **_PATH_ENCODING)


def _digest(repository: str) -> str:
    return hashlib.sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _baseline(tree: Path, repository: Path, commit: str) -> Baseline:
    object_format = "sha256" if len(commit) == 64 else "sha1"
    return Baseline(tree, _scratch(tree), repository / "objects", commit, object_format)


def _is_commit(revision: str) -> bool:
    return len(revision) in (40, 64) and not set(revision) - set("0123456789abcdef")


def _note_of(tree: Path) -> Path:
    """Return the file with the worktree's repository and commit. No task's worktree has this name,
    because a task's name has ``~`` only before its digest."""
    return tree.with_name(f"{tree.name}~json")


def _scratch(tree: Path) -> Path:
    """Return the git directory of the worktree's baseline."""
    return tree.with_name(f"{tree.name}~git")


def _remove(tree: Path, administration: Path | None) -> None:
    """Remove a worktree with its note and its git directories."""
    _note_of(tree).unlink(missing_ok=True)
    for folder in (tree, _scratch(tree), administration):
        if folder is not None and folder.exists():
            remove_tree(folder)


def _remove_untrusted(repository: Path) -> None:
    """Remove files that an agent may have written into our repository, and write our configuration.

    Codex's sandbox lets an agent write below /tmp. An agent that runs now could write the files
    again, so the default directory is not below /tmp.
    """
    if not (repository / "HEAD").exists():
        return
    for name in _UNTRUSTED:
        path = repository / name
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    write_private(repository / "config", _CONFIG)


async def _resolve(repository: Path, revision: str) -> str | None:
    """Return the commit of a branch, tag or commit; None if the repository does not have it."""
    names = [f"refs/remotes/origin/{revision}", f"refs/tags/{revision}", revision]
    if _is_commit(revision):
        names = [revision]
    words, env = ("--verify", "--quiet", "--end-of-options"), {"GIT_DIR": str(repository)}
    for name in names:
        try:
            out = await git("rev-parse", *words, f"{name}^{{commit}}", env=env)
        except GitFailed:
            continue
        commit = out.decode().split()[-1]
        if _is_commit(commit):
            return commit
    return None


async def _fetch(repository: Path, url: str, *refspecs: str) -> None:
    bare_url, login = without_login(url)
    arguments = (*_FETCH_OPTIONS, "--end-of-options", bare_url, *refspecs)
    await git("fetch", *arguments, env={"GIT_DIR": str(repository), **login}, users_own=True)


@asynccontextmanager
async def _locked(repository: Path) -> AsyncIterator[None]:
    """Lock a repository against all other processes of this machine."""
    lock = FileLock(repository.with_suffix(".lock"))
    while not lock.acquire():  # noqa: ASYNC110 - other processes lock it
        await asyncio.sleep(LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()
