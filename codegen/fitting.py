"""Try every generated core schema on pydantic-core, before it is written to the tree."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any, cast

from pydantic_core import SchemaSerializer, SchemaValidator, __version__

from codegen.errors import CodegenError
from codex_acp.wire.lazy import Schema, model_schema


def check_schemas(files: dict[str, str]) -> None:
    """Raise CodegenError that names a definition whose schema pydantic-core refuses."""
    trees: dict[PurePosixPath, dict[str, Any]] = {}
    for path, text in files.items():
        folder = PurePosixPath(path).parent
        if folder.name == "schemas":
            names = trees.setdefault(folder, {"__name__": str(folder)})
            exec(compile(text, path, "exec"), names)
    for folder, found in trees.items():
        # Without the functions that the modules import.
        functions = {n: f for n, f in found.items() if getattr(f, "__module__", "") == str(folder)}
        for unstable in (True, False):
            tree = _Tree(str(folder), functions, unstable)
            for name in functions:
                tree(name)


class _Tree:
    """Calls the schema functions of one folder, with itself as their argument ``ref``: called with
    the name of a definition, it returns the schema. An empty class stands for each model."""

    def __init__(self, folder: str, functions: dict[str, Any], unstable: bool) -> None:
        self.unstable = unstable
        self._folder = folder
        self._functions = functions
        self._schemas: dict[str, Schema] = {}

    def __call__(self, name: str) -> Schema:
        if name not in self._schemas:
            try:
                self._schemas[name] = self._try(name)
            except CodegenError:
                raise
            except Exception as error:
                msg = f"{self._folder}: {name} does not fit pydantic-core {__version__}: {error!r}"
                raise CodegenError(msg) from error
        return self._schemas[name]

    def _try(self, name: str) -> Schema:
        """Make the schema of a definition, and load it in pydantic-core."""
        function = self._functions[name]
        schema: Schema = function(self)
        if function.__annotations__["return"] == "Fields":
            schema = model_schema(type(name, (), {}), schema)
        SchemaValidator(cast("Any", schema))
        SchemaSerializer(cast("Any", schema))
        return schema
