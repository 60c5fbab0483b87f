"""Blocks of content, and what a tool call can show besides them, of no version of ACP.

A block is what MCP and both versions of ACP have alike; each version's rendering writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "AudioBlock",
    "BlobResource",
    "Block",
    "CallContent",
    "FileDiff",
    "FileOperation",
    "ImageBlock",
    "LinkBlock",
    "Location",
    "TerminalContent",
    "TextBlock",
    "TextResource",
]

FileOperation: TypeAlias = Literal["add", "delete", "modify", "move"]
"""What happens to a file; ``move`` may change its text, too."""


@dataclass(slots=True)
class TextBlock:
    """Text; of a tool call Markdown of ours, in which others' words are code."""

    text: str


@dataclass(slots=True)
class ImageBlock:
    """An image in base64; ``uri`` says where it came from."""

    data: str
    mime_type: str
    uri: str | None = None


@dataclass(slots=True)
class AudioBlock:
    """A recording in base64."""

    data: str
    mime_type: str


@dataclass(slots=True)
class LinkBlock:
    """A link to a resource."""

    name: str
    uri: str
    description: str | None = None
    title: str | None = None


@dataclass(slots=True)
class TextResource:
    """A resource with its text."""

    uri: str
    text: str
    mime_type: str | None = None


@dataclass(slots=True)
class BlobResource:
    """A resource with its bytes in base64."""

    uri: str
    blob: str
    mime_type: str | None = None


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | LinkBlock | TextResource | BlobResource
"""A piece of content: of a prompt, a message, or a tool call."""


@dataclass(slots=True)
class FileDiff:
    """The change of one file, as far as it is known."""

    path: str
    """Where the file is afterwards; of a deleted one where it was."""
    operation: FileOperation
    before: str | None = None
    """The whole text before; None if it is not known, or there was none (``add``)."""
    after: str | None = None
    """The whole text after; None if it is not known, or there is none (``delete``)."""
    patch: str | None = None
    """The hunks of a unified diff, without file headers; None of a whole file, or if unknown."""
    moved_from: str | None = None
    """Of ``move``."""
    text: TextBlock | None = None
    """The patch written out, for who has no room for it otherwise."""


@dataclass(slots=True)
class TerminalContent:
    """The output of a command, in a terminal that the agent tells of."""

    terminal_id: str


CallContent: TypeAlias = Block | FileDiff | TerminalContent
"""What a tool call shows."""


@dataclass(slots=True)
class Location:
    """A file that a tool call is about; lines count from 1."""

    path: str
    line: int | None = None
