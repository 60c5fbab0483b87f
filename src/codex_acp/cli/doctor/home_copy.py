"""A copy of the parts of ``CODEX_HOME`` that Codex only reads, for Codex to be asked in.

Codex writes into its home whatever it is asked. Owns what is copied, and that it is removed. A
login is never copied for longer than the question about it takes, and nothing can renew it then.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

__all__ = ["MAX_CONFIG", "HomeCopy", "read_regular"]

MAX_CONFIG: Final = 1024 * 1024
"""Bytes of a file that is read or copied; a configuration has a few thousand."""

MAX_FILES: Final = 200

FOLDERS: Final = ("rules", "agents")
"""Folders of configuration that ``config.toml`` may refer to."""

SUFFIXES: Final = (".toml", ".md", ".rules", ".json")

NOT_COPIED: Final = ("auth.json", "hooks.json", ".credentials.json")
"""Logins, and programs that nobody asked to be run."""

NOWHERE: Final = "http://127.0.0.1:9"
"""The discard port: nothing listens there."""


class HomeCopy:
    """``with HomeCopy(home) as copy:`` `fill` makes it in ``copy.codex_home``; of None, nothing."""

    def __init__(self, source: Path | None) -> None:
        self._source = source

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="codex-doctor-")).resolve()
        self.codex_home.mkdir()
        self.workspace.mkdir()
        self.temporary.mkdir()
        return self

    def fill(self) -> None:
        """Copy what there is; what cannot be read is left out."""
        source = self._source
        for path in () if source is None else _files(source):
            assert source is not None
            with suppress(OSError, ValueError):
                target = self.codex_home / path.relative_to(source)
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(read_regular(path))

    def __exit__(self, *_exc: object) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def codex_home(self) -> Path:
        """What Codex has as its home."""
        return self.root / "codex"

    @property
    def workspace(self) -> Path:
        """An empty directory, which no configuration trusts."""
        return self.root / "workspace"

    @property
    def temporary(self) -> Path:
        """What Codex has as ``TMPDIR``: its sandbox leaves files there."""
        return self.root / "tmp"

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, with the copy for Codex's home."""
        home = str(self.codex_home)
        own = {"CODEX_HOME": home, "CODEX_SQLITE_HOME": home, "TMPDIR": str(self.temporary)}
        return {**os.environ, **own}

    @property
    def offline(self) -> dict[str, str]:
        """`env`, in which no login can be renewed: what is copied must not use up what is not."""
        proxies = ("http_proxy", "https_proxy", "all_proxy")
        nowhere = dict.fromkeys((*proxies, *map(str.upper, proxies)), NOWHERE)
        return {**self.env, **nowhere, "CODEX_REFRESH_TOKEN_URL_OVERRIDE": NOWHERE}

    def real(self, text: str) -> str:
        """``text`` of Codex, with the path of the home in place of its copy's."""
        return text.replace(str(self.codex_home), str(self._source or self.codex_home))


def _files(source: Path) -> Iterator[Path]:
    count = 0
    for folder in (source, *(source / name for name in FOLDERS)):
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if path.suffix in SUFFIXES and path.name not in NOT_COPIED:
                    yield path
                    count += 1
                    if count == MAX_FILES:
                        return


def read_regular(path: Path) -> bytes:
    """A file of a sensible size. Raises OSError, or ValueError that says what it is instead."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            message = "it is no regular file"
            raise ValueError(message)
        if found.st_size > MAX_CONFIG:
            message = f"it is larger than {MAX_CONFIG} bytes"
            raise ValueError(message)
        return os.read(file, MAX_CONFIG)
    finally:
        os.close(file)
