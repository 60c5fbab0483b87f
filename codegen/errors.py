"""Define the errors of the generator; each stops the run with a message that names the cure."""

from __future__ import annotations


class CodegenError(Exception):
    """The schemas and the generator's tables do not fit; nothing was written."""


class PinMismatch(CodegenError):
    """A vendored schema is not the file that ``PINNED.json`` names."""


class NameCollision(CodegenError):
    """Two definitions would get one class name, or a name is too long or ends in an ordinal."""


class UnusedOverride(CodegenError):
    """An override matches nothing in the schema."""


class BrokenSchema(CodegenError):
    """A schema file is cut off, is no JSON, or refers to a definition that it lacks."""


class FetchFailed(CodegenError):
    """A package could not be fetched, has another hash than in its registry, or does not run."""
