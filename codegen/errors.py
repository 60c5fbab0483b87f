"""What can go wrong while generating; every one stops the run with a message that says the cure."""

from __future__ import annotations


class CodegenError(Exception):
    """The schemas and the generator's tables do not fit; nothing was written."""


class PinMismatch(CodegenError):
    """A vendored schema is not the file that ``PINNED.json`` names."""


class NameCollision(CodegenError):
    """Two definitions would get one class name, or a name is too long or an ordinal."""


class UnusedOverride(CodegenError):
    """An override no longer matches anything in the schema."""


class BrokenSchema(CodegenError):
    """A schema file is cut off, is no JSON, or lacks something that it refers to."""


class FetchFailed(CodegenError):
    """A package could not be fetched, is not what its registry says, or its binary did not run."""
