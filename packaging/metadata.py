"""What the distribution's metadata has of the place where it is released: addresses.

A release is built where ``GITHUB_REPOSITORY`` names the repository (GitHub sets it). Then the links
of README lead to that release there, since PyPI has no other file, and ``[project.urls]`` name the
repository. Elsewhere nothing is known of an address, and README stays as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?://|#)([^)\s]+)\)")


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc] # hatchling has no types
    """Called by hatchling, which finds it by its base class."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``readme`` and, for a release, ``urls``."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("GITHUB_REPOSITORY")
        if repository:
            metadata["urls"] = urls(repository)
            text = with_absolute_links(text, repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def urls(repository: str) -> dict[str, str]:
    """Return ``[project.urls]`` of a repository of GitHub, ``owner/name``."""
    home = f"https://github.com/{repository}"
    return {
        "Repository": home,
        "Documentation": f"{home}/tree/main/docs",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


def with_absolute_links(text: str, repository: str, tag: str) -> str:
    """Return Markdown whose links into the repository lead to its files of that tag."""

    def absolute(found: re.Match[str]) -> str:
        image, words, path = found.groups()
        page = f"https://github.com/{repository}/blob/{tag}"
        raw = f"https://raw.githubusercontent.com/{repository}/{tag}"
        return f"{image}{words}({raw if image else page}/{path})"

    return LINK.sub(absolute, text)
