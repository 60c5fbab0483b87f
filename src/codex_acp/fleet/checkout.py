"""Make the worktree of a task: fetch its repository (once for each run on a machine), check it out.

A fleet has the tasks of one output directory. Each run of the fleet works on tasks that are not
done. A job is one attempt of a task; the next attempt, perhaps of a later run, uses the worktree
that an interrupted attempt left.

Our copy of the repository has no hooks, no submodules and no configuration but our own. Only a
fetch also uses the user's configuration. Checking a revision out does not make its files trusted.
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
_SCP: Final = re.compile(r"(?:[\w.][\w.-]*@)?[\w.][\w.-]*:[^:].*")
"""``user@host:path``, the short form of an ssh URL; ``host::`` would name a transport helper."""
_USER: Final = "CODEX_ACP_GIT_USER"
_PASSWORD: Final = "CODEX_ACP_GIT_PASSWORD"
_GIVE_LOGIN: Final = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n"'
    f' "${_USER}" "${_PASSWORD}"; }}; f'  # the shell sees $CODEX_ACP_GIT_USER
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
            host = parts.hostname or ""
            _ = parts.port  # raises ValueError for a port that is no number
        except ValueError:
            return "the repository is no readable URL; a password in it must be percent-encoded"
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
    host alone, not after a redirect to another host, and gives it to no other credential helper."""
    parts = urlsplit(repository)
    login, at, host = parts.netloc.rpartition("@")
    if parts.scheme != "https" or not at:
        return repository, {}
    user, colon, password = (unquote(part) for part in login.partition(":"))
    key = f"credential.https://{host}"
    settings = [(f"{key}.username", user)]
    if colon:
        # The empty value removes the helpers of the user's configuration.
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
"""Most worktrees of one task on one machine: a lost worker may still lock its worktree."""
_FETCH_OPTIONS: Final = (
    "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--force",
    "--prune",  # an old branch x, gone from the remote, would block a new branch x/y
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
    """The content from which the agent's changes are counted."""
    git_dir: Path
    """Git's directory for this worktree, ``worktrees/NAME`` in the repository."""
    left_over: bool
    """Whether an earlier attempt has left the worktree."""
    lock: FileLock
    """Lock of the worktree, which keeps other workers out."""


class Checkouts:
    """The repositories and worktrees below ``root``, for this user's processes on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._commits: dict[tuple[str, str, str], str] = {}
        """Repository, run and revision → commit, so that a run looks up each commit once."""

    async def make(self, job: Job, *, resume: bool) -> Checkout:
        """Make the worktree of a job; with ``resume``, use the worktree that an earlier attempt
        left, if there is one. Raises CheckoutError, which may be a GitFailed."""
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
            tree, lock = await self._lock_tree(trees, job.name)
        except OSError as error:
            raise CheckoutError(f"{place} cannot be used: {error.strerror or error}") from error
        wanted = {"repository": scrub(job.repository), "revision": job.revision}
        repository = repositories / f"{_digest(job.repository)}.git"
        try:
            with lock.released_on_error():
                found = self._find_left_over(tree, repository, wanted, lock) if resume else None
                async with _locked(repository):
                    await asyncio.to_thread(_remove_untrusted, repository)
                    return found or await self._make_tree(job, repository, tree, lock, wanted)
        except OSError as error:
            why = error.strerror or str(error)
            raise CheckoutError(f"the worktree of {job.task_id!r} cannot be made: {why}") from error

    async def remove(self, checkout: Checkout) -> None:
        """Remove a worktree and its lock."""
        await asyncio.to_thread(_remove, checkout.path, checkout.git_dir)
        checkout.lock.release(remove=True)

    async def _lock_tree(self, trees: Path, name: str) -> tuple[Path, FileLock]:
        """Lock a worktree that no worker has locked; return its path and lock."""
        for number in range(1, MOST_TREES + 1):
            tree = trees / (name if number == 1 else f"{name}@{number}")
            lock = FileLock(trees / f"{tree.name}~lock")
            if lock.acquire():
                return tree, lock
        raise CheckoutError(f"{MOST_TREES} workers have a worktree of {name!r} already")

    def _find_left_over(
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
        git_dir = repository / "worktrees" / name
        baseline = _baseline(tree, repository, commit)
        return Checkout(tree, commit, baseline, git_dir, left_over=True, lock=lock)

    async def _make_tree(
        self, job: Job, repository: Path, tree: Path, lock: FileLock, wanted: dict[str, str | None]
    ) -> Checkout:
        """Check the job's revision out into a new worktree."""
        assert job.repository is not None
        await asyncio.to_thread(_remove, tree, None)
        key = (job.repository, job.run_id, job.revision or "")
        commit = self._commits.get(key) or await self._find_commit(job, repository)
        self._commits[key] = commit
        git_dir = repository / "worktrees" / _digest(tree.name)
        try:
            await asyncio.to_thread(_set_up_worktree, git_dir, tree, commit)
            env = {"GIT_DIR": str(git_dir), "GIT_WORK_TREE": str(tree)}
            await git("read-tree", "--reset", "-u", commit, env=env, cwd=tree)
        except BaseException:
            await asyncio.to_thread(_remove, tree, git_dir)
            raise
        # `set_up` makes the baseline's git directory; its result has the digest of the index, too.
        undigested = _baseline(tree, repository, commit)
        baseline = await asyncio.to_thread(undigested.set_up, git_dir / "index")
        note = json.dumps(wanted | {"commit": commit, "administration": git_dir.name})
        _note_of(tree).write_text(note, encoding="utf-8")
        return Checkout(tree, commit, baseline, git_dir, left_over=False, lock=lock)

    async def _find_commit(self, job: Job, repository: Path) -> str:
        """Return the commit of the job's revision; fetch the repository if necessary."""
        assert job.repository is not None
        last_run_file = repository / "fetched-for"  # has the id of the run that fetched last
        if not (repository / "HEAD").exists():
            make_private(repository)
            await git("init", "--bare", "--quiet", "--template=", "--", str(repository))
        last_run = ""
        with suppress(OSError, ValueError):
            last_run = read_regular(last_run_file, 1000).decode(errors="replace")
        fetched = last_run == job.run_id  # an earlier job of this run fetched the repository
        revision, commit = job.revision or "HEAD", None
        # A commit never changes; a branch or a tag may have since an earlier run's fetch.
        if fetched or _is_commit(revision):
            commit = await _resolve(repository, revision)
        if commit is None and not fetched:
            try:
                await _fetch(repository, job.repository, _HEADS, _TAGS, _HEAD)
            except GitFailed:  # the remote's HEAD may name no branch; another fault fails again
                await _fetch(repository, job.repository, _HEADS, _TAGS)
            last_run_file.unlink(missing_ok=True)  # an agent may have made the file a link
            write_private(last_run_file, job.run_id.encode())
            commit = await _resolve(repository, revision)
        if commit is None and _is_commit(revision):  # no branch or tag contains the commit
            await _fetch(repository, job.repository, revision)
            commit = await _resolve(repository, revision)
        if commit is not None:
            return commit
        where = scrub(job.repository)
        raise CheckoutError(f"{where} has no revision {revision!r}; name a branch, tag or commit")


def _set_up_worktree(git_dir: Path, tree: Path, commit: str) -> None:
    """Make the files of a worktree. Source: gitrepository-layout(5), ``worktrees/<id>``."""
    _remove(tree, git_dir)  # a killed worker may have left them
    for folder in (git_dir, tree):
        make_private(folder)
    (tree / ".git").write_text(f"gitdir: {git_dir}\n", **_PATH_ENCODING)
    (git_dir / "gitdir").write_text(f"{tree / '.git'}\n", **_PATH_ENCODING)
    (git_dir / "commondir").write_text("../..\n", **_PATH_ENCODING)
    (git_dir / "HEAD").write_text(f"{commit}\n", **_PATH_ENCODING)


def _digest(repository: str) -> str:
    return hashlib.sha256(repository.encode("utf-8", "surrogateescape")).hexdigest()[:20]


def _baseline(tree: Path, repository: Path, commit: str) -> Baseline:
    object_format = "sha256" if len(commit) == 64 else "sha1"
    return Baseline(tree, _baseline_git_dir(tree), repository / "objects", commit, object_format)


def _is_commit(revision: str) -> bool:
    return len(revision) in (40, 64) and not set(revision) - set("0123456789abcdef")


def _note_of(tree: Path) -> Path:
    """Return the file with the worktree's repository and commit. No task's worktree has this name:
    in a task's name, only a digest follows ``~``, never ``json``."""
    return tree.with_name(f"{tree.name}~json")


def _baseline_git_dir(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}~git")


def _remove(tree: Path, git_dir: Path | None) -> None:
    """Remove a worktree with its note and its git directories."""
    _note_of(tree).unlink(missing_ok=True)
    for folder in (tree, _baseline_git_dir(tree), git_dir):
        if folder is not None and folder.exists():
            remove_tree(folder)


def _remove_untrusted(repository: Path) -> None:
    """Remove files that an agent may have written into our repository, and write our configuration.
    Codex's sandbox lets an agent write below /tmp. An agent that runs now could write the files
    again, so the default directory is not below /tmp."""
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
    """Return the commit of a revision; None if the repository does not have the revision."""
    prefixes = ("",) if _is_commit(revision) else ("refs/remotes/origin/", "refs/tags/", "")
    words, env = ("--verify", "--quiet", "--end-of-options"), {"GIT_DIR": str(repository)}
    for prefix in prefixes:
        try:
            out = await git("rev-parse", *words, f"{prefix}{revision}^{{commit}}", env=env)
        except GitFailed:
            continue
        commit = out.decode().split()[-1]
        if _is_commit(commit):
            return commit
    return None


async def _fetch(repository: Path, url: str, *refspecs: str) -> None:
    """Fetch with the user's configuration, which may name a proxy or have the user's logins."""
    bare_url, login = without_login(url)
    arguments = (*_FETCH_OPTIONS, "--end-of-options", bare_url, *refspecs)
    await git("fetch", *arguments, env={"GIT_DIR": str(repository), **login}, user_config=True)


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
