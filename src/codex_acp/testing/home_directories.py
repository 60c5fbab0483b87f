"""The directories of a throw-away home of Codex, and that they are removed."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from codex_acp.errors import MisuseError

if TYPE_CHECKING:
    import os
    from typing import Self

REMOVE_TRIES = 20
REMOVE_PAUSE_SECONDS = 0.1
"""Codex may still write when the directory is removed: try again for two seconds."""


class HomeDirectories:
    """Four directories in one, of the name that begins with ``prefix``; removed at the end.

    They are made in ``parent``, by default the system's temporary directory.
    """

    def __init__(self, prefix: str, parent: str | os.PathLike[str] | None = None) -> None:
        self._prefix = prefix
        self._parent = parent
        self._root: Path | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({None if self._root is None else str(self._root)!r})"

    def __enter__(self) -> Self:
        """Make the directories."""
        if self._root is not None:
            raise MisuseError(f"this {type(self).__name__} is already in use; make a new one")
        # Resolved: on macOS the temporary directory is a link and Codex reports real paths.
        self._root = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self._parent)).resolve()
        for directory in (self.codex_home, self.home, self.workspace, self.temporary):
            directory.mkdir()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Remove everything."""
        self.remove()

    def remove(self) -> None:
        """Remove the directories; never raises, and gives up after two seconds."""
        if self._root is None:
            return
        root, self._root = self._root, None
        for _ in range(REMOVE_TRIES):
            shutil.rmtree(root, ignore_errors=True)
            if not root.exists():
                return
            time.sleep(REMOVE_PAUSE_SECONDS)

    @property
    def root(self) -> Path:
        """The directory that holds the others. Raises MisuseError outside the ``with``."""
        if self._root is None:
            name = type(self).__name__
            raise MisuseError(f"the {name} has no directories; use it in a with statement")
        return self._root

    @property
    def codex_home(self) -> Path:
        """``CODEX_HOME``: configuration, sessions, logs."""
        return self.root / "codex"

    @property
    def home(self) -> Path:
        """A bare ``HOME``: Codex runs commands in a login shell, and a profile would slow it."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The process's ``TMPDIR``, in which Codex's sandbox leaves files."""
        return self.root / "tmp"

    @property
    def workspace(self) -> Path:
        """An empty directory for the threads to work in, which no configuration trusts."""
        return self.root / "workspace"
