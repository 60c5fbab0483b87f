"""A copy of the parts of ``CODEX_HOME`` that Codex only reads, for Codex to be asked in.

Codex writes into its home whatever it is asked. Owns what is copied, and that it is removed. A
login is never copied for longer than the question about it takes, and nothing can renew it then.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codex_acp._regular_files import read_regular
from codex_acp.testing.codex_home import HomeDirectories

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


class HomeCopy(HomeDirectories):
    """``with HomeCopy(home) as copy:`` `fill` makes it in ``copy.codex_home``; of None, nothing."""

    def __init__(self, source: Path | None) -> None:
        super().__init__("codex-doctor-")
        self._source = source

    def fill(self) -> None:
        """Copy what there is; what cannot be read is left out."""
        source = self._source
        for path in () if source is None else _files(source):
            assert source is not None
            with suppress(OSError, ValueError):
                target = self.codex_home / path.relative_to(source)
                target.parent.mkdir(exist_ok=True)
                target.write_bytes(read_regular(path, MAX_CONFIG))

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
