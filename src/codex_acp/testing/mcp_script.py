"""Describe a scripted MCP server as data, and hold the files of one in use.

Owns the script's JSON form and the entry for Codex's configuration; the process is
``mcp_server``. Source: Model Context Protocol, "Tools" and "Elicitation".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from codex_acp.errors import MisuseError
from codex_acp.testing.record_file import read_record

if TYPE_CHECKING:
    from os import PathLike

    from codex_acp.testing.toml_writer import TomlValue

JsonObject: TypeAlias = Mapping[str, object]


def form_elicitation(
    message: str,
    properties: Mapping[str, JsonObject],
    *,
    required: Sequence[str] = (),
    meta: JsonObject | None = None,
) -> dict[str, object]:
    """The params of an ``elicitation/create`` with a form; ``properties`` are JSON schemas."""
    schema: dict[str, object] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    params: dict[str, object] = {"mode": "form", "message": message, "requestedSchema": schema}
    if meta is not None:
        params["_meta"] = dict(meta)
    return params


def url_elicitation(
    message: str, url: str, *, elicitation_id: str = "elicitation-1", meta: JsonObject | None = None
) -> dict[str, object]:
    """The params of an ``elicitation/create`` that asks to open a page."""
    params: dict[str, object] = {
        "mode": "url",
        "message": message,
        "url": url,
        "elicitationId": elicitation_id,
    }
    if meta is not None:
        params["_meta"] = dict(meta)
    return params


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool. Codex asks before it runs one that is not read-only, see ``annotations``.

    With ``elicitations``, each the params of an ``elicitation/create`` that is sent to the
    client in turn, the result's text is the JSON list of the answers; otherwise it is ``text``
    or, if it is set, the whole ``result`` (``{"content": [...], "isError": ...}``).
    """

    name: str
    description: str = ""
    text: str = "done"
    result: JsonObject | None = None
    read_only: bool | None = None
    """The annotation ``readOnlyHint``; None leaves it out."""
    destructive: bool | None = None
    """The annotation ``destructiveHint``; None leaves it out."""
    annotations: JsonObject = field(default_factory=dict)
    """Further annotations, in their wire spelling."""
    input_schema: JsonObject = field(
        default_factory=lambda: {"type": "object", "additionalProperties": True}
    )
    elicitations: Sequence[JsonObject] = ()
    delay: float = 0.0
    """Seconds before the tool answers."""

    def listed(self) -> dict[str, object]:
        """The tool as ``tools/list`` shows it."""
        annotations = dict(self.annotations)
        if self.read_only is not None:
            annotations["readOnlyHint"] = self.read_only
        if self.destructive is not None:
            annotations["destructiveHint"] = self.destructive
        tool: dict[str, object] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": dict(self.input_schema),
        }
        if annotations:
            tool["annotations"] = annotations
        return tool


@dataclass(frozen=True, slots=True)
class McpScript:
    """The whole server."""

    tools: Sequence[McpTool] = ()
    after_initialize: Sequence[JsonObject] = ()
    """Params of elicitations that are sent, unasked, when the client is initialized."""
    triggers: Mapping[str, JsonObject] = field(default_factory=dict)
    """Params of elicitations that are sent when :meth:`ScriptedMcpServer.trigger` names them."""
    start_delay: float = 0.0
    """Seconds before the answer to ``initialize``."""
    fail_status: int | None = None
    """If it is set the server ends with this status at once, ``fail_text`` on standard error."""
    fail_text: str = "the scripted MCP server fails to start"

    def to_json(self) -> str:
        """The script as JSON; member names are those of the fields."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> McpScript:
        """Read a script. Raises MisuseError for unknown members."""
        try:
            document = json.loads(text)
            tools = tuple(McpTool(**tool) for tool in document.pop("tools", ()))
            return cls(tools=tools, **document)
        except (ValueError, TypeError, AttributeError) as error:
            raise MisuseError(f"the MCP server's script is wrong: {error}") from error


class ScriptedMcpServer:
    """A server for one test: its script, its record and its triggers in ``directory``.

    ``CodexHome(model.base_url, mcp_servers={"notes": server.config})`` lets Codex start it.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        script: McpScript | Sequence[McpTool],
        *,
        name: str = "mcp",
    ) -> None:
        self.script: McpScript = (
            script if isinstance(script, McpScript) else McpScript(tools=script)
        )
        base = Path(directory).resolve()
        self._script_path = base / f"{name}-script.json"
        self._triggers = base / f"{name}-triggers"
        self._triggers.mkdir()
        self.record_path: Path = base / f"{name}-record.jsonl"
        self._script_path.write_text(self.script.to_json(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"ScriptedMcpServer({[tool.name for tool in self.script.tools]!r})"

    @property
    def argv(self) -> list[str]:
        """The command that runs the server."""
        return [
            sys.executable,
            "-P",  # the working directory is the test's: no module of it may be imported
            "-m",
            "codex_acp.testing.mcp_server",
            str(self._script_path),
            f"--record={self.record_path}",
            f"--triggers={self._triggers}",
        ]

    @property
    def config(self) -> dict[str, TomlValue]:
        """The server's table in Codex's ``config.toml``.

        It is ``required``, unless it is scripted to fail: ``thread/start`` then waits for it.
        Otherwise a turn does not, and the model's first call meets an unknown tool.
        """
        command, *args = self.argv
        source = str(Path(__file__).resolve().parents[2])
        return {
            "command": command,
            "args": args,
            "env": {"PYTHONPATH": source},
            "required": self.script.fail_status is None,
        }

    def trigger(self, name: str) -> None:
        """Have the running server send the elicitation ``name`` of ``McpScript.triggers``."""
        if name not in self.script.triggers:
            raise MisuseError(f"the MCP server's script has no trigger {name!r}")
        (self._triggers / name).touch()

    def record(self) -> tuple[JsonObject, ...]:
        """All traffic so far: ``{"at": "in" | "out", "message": {...}}``."""
        return read_record(self.record_path)

    def received(self, method: str) -> list[JsonObject]:
        """The client's messages of this method."""
        return [message for message in self._messages() if message.get("method") == method]

    def answers(self) -> list[JsonObject]:
        """The client's answers to the server's elicitations, in the order of arrival."""
        return [message for message in self._messages() if "method" not in message]

    def _messages(self) -> list[JsonObject]:
        return [cast("JsonObject", line["message"]) for line in self.record() if line["at"] == "in"]
