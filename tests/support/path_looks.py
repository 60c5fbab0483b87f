"""What a look at the disk found, for tests of what is shown of it."""

from __future__ import annotations

from collections.abc import Mapping

from codex_acp.codex.approvals.running_items import PathLook


def there(path: str, text: str | None = None, unread: str = "") -> PathLook:
    """A file at its own place."""
    size = 0 if text is None else len(text.encode())
    return PathLook(path, path, path, exists=True, size=size, text=text, unread=unread)


def nothing(path: str) -> PathLook:
    """A place where nothing is."""
    return PathLook(path, path, path)


def behind(path: str, real: str, text: str | None = None) -> PathLook:
    """A file whose directory is behind a link."""
    return there(real, text)._replace(named=path)


def texts(files: Mapping[str, str]) -> dict[str, PathLook]:
    """Files at their own places, by their texts."""
    return {path: there(path, text) for path, text in files.items()}
