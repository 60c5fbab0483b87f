"""Play a script as a small MCP server on standard input and output.

``python -P -m codex_acp.testing.mcp_server SCRIPT.json [--record OUT.jsonl] [--triggers DIR]``

The process has a thread for each request (a tool may wait for an elicitation), and a thread that
watches the directory of triggers. Uses only the standard library.

Source: Model Context Protocol, revisions 2025-06-18 and 2025-11-25. The client chooses one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from codex_acp._json import object_at
from codex_acp.errors import MisuseError
from codex_acp.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from codex_acp.testing.record_file import RecordWriter, read_record, write_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from typing import BinaryIO

    from codex_acp.testing.codex_home import TomlValue

JsonObject: TypeAlias = Mapping[str, object]


def form_elicitation(
    message: str,
    properties: Mapping[str, JsonObject],
    *,
    required: Sequence[str] = (),
    meta: JsonObject | None = None,
) -> dict[str, object]:
    """Make the params of an ``elicitation/create`` for a form; ``properties`` are JSON schemas."""
    schema: dict[str, object] = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    params: dict[str, object] = {"mode": "form", "message": message, "requestedSchema": schema}
    return params if meta is None else {**params, "_meta": dict(meta)}


def url_elicitation(
    message: str, url: str, *, elicitation_id: str = "elicitation-1", meta: JsonObject | None = None
) -> dict[str, object]:
    """Make the params of an ``elicitation/create`` for opening a page."""
    params: dict[str, object] = {
        "mode": "url",
        "message": message,
        "url": url,
        "elicitationId": elicitation_id,
    }
    return params if meta is None else {**params, "_meta": dict(meta)}


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool of the server. Codex asks before it runs a tool that is not ``read_only``."""

    name: str
    description: str = ""
    text: str = "done"
    """Text of the result, if there are no ``elicitations`` and no ``result``."""
    result: JsonObject | None = None
    """The whole result: ``{"content": [...], "isError": ...}``."""
    read_only: bool | None = None
    """The annotation ``readOnlyHint``; None leaves it out."""
    destructive: bool | None = None
    """The annotation ``destructiveHint``; None leaves it out."""
    annotations: JsonObject = field(default_factory=dict)
    """More annotations, by their names on the wire."""
    input_schema: JsonObject = field(
        default_factory=lambda: {"type": "object", "additionalProperties": True}
    )
    elicitations: Sequence[JsonObject] = ()
    """Params of ``elicitation/create`` requests, sent one after the other. With elicitations, the
    text of the result is the JSON list of the answers."""
    delay: float = 0.0
    """Seconds before the tool answers."""

    def listed(self) -> dict[str, object]:
        """Return the tool's entry in the answer to ``tools/list``."""
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
    """The script of a server."""

    tools: Sequence[McpTool] = ()
    after_initialize: Sequence[JsonObject] = ()
    """Params of elicitations that are sent after ``notifications/initialized``."""
    triggers: Mapping[str, JsonObject] = field(default_factory=dict)
    """Name → params of an elicitation that :meth:`ScriptedMcpServer.trigger` sends."""
    start_delay: float = 0.0
    """Seconds before the answer to ``initialize``."""
    fail_status: int | None = None
    """Exit status with which the server ends at once; None to serve."""
    fail_text: str = "the scripted MCP server fails to start"
    """Text on standard error with ``fail_status``."""

    def to_json(self) -> str:
        """Return the script as JSON, whose members are the fields."""
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
    """A server for one test, with its script, record and triggers in ``directory``.

    With ``CodexHome(model.base_url, mcp_servers={"notes": server.config})``, Codex starts it.
    """

    def __init__(
        self,
        directory: str | PathLike[str],
        script: McpScript | Sequence[McpTool],
        *,
        name: str = "mcp",
    ) -> None:
        self.script = script if isinstance(script, McpScript) else McpScript(tools=script)
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
            "-P",  # do not import modules from the test's working directory
            "-m",
            "codex_acp.testing.mcp_server",
            str(self._script_path),
            f"--record={self.record_path}",
            f"--triggers={self._triggers}",
        ]

    @property
    def config(self) -> dict[str, TomlValue]:
        """The server's table in Codex's ``config.toml``.

        The server is ``required``, unless the script has a ``fail_status``: ``thread/start`` waits
        for a required server, so that the model's first call finds its tool.
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
        """Make the running server send the elicitation ``name`` of ``McpScript.triggers``."""
        if name not in self.script.triggers:
            raise MisuseError(f"the MCP server's script has no trigger {name!r}")
        (self._triggers / name).touch()

    def record(self) -> tuple[JsonObject, ...]:
        """Return all messages so far: ``{"at": "in" | "out", "message": {...}}``."""
        return read_record(self.record_path)

    def received(self, method: str) -> list[JsonObject]:
        """Return the client's messages with a method."""
        return [message for message in self._messages() if message.get("method") == method]

    def answers(self) -> list[JsonObject]:
        """Return the client's answers to the server's elicitations, in order."""
        return [message for message in self._messages() if "method" not in message]

    def _messages(self) -> list[JsonObject]:
        return [cast("JsonObject", line["message"]) for line in self.record() if line["at"] == "in"]


POLL_SECONDS = 0.02
"""Seconds between two looks into the directory of triggers."""


class _Server:
    """Serves one client by a script."""

    def __init__(self, script: McpScript, record: RecordWriter, output: int) -> None:
        self._script = script
        self._tools = {tool.name: tool for tool in script.tools}
        self._record = record
        self._output = output
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._answers: dict[object, queue.SimpleQueue[JsonObject]] = {}
        """Id of an open elicitation → queue for its answer."""

    def run(self, source: BinaryIO, triggers: Path | None) -> None:
        if triggers is not None:
            threading.Thread(target=self._watch, args=(triggers,), daemon=True).start()
        for line in source:
            if not line.strip():
                continue
            message = json.loads(line)
            self._record.write("in", message=message)
            if "method" not in message:
                answer = self._answers.pop(message.get("id"), None)
                if answer is not None:
                    answer.put(message)
            elif "id" in message:
                # In a thread, because a tool may wait for an answer that this loop must read.
                threading.Thread(target=self._serve, args=(message,), daemon=True).start()
            elif message["method"] == "notifications/initialized":
                for params in self._script.after_initialize:
                    self._elicit(params)

    def _send(self, message: JsonObject) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            self._record.write("out", message=message)
            write_all(self._output, data)

    def _elicit(self, params: JsonObject) -> queue.SimpleQueue[JsonObject]:
        """Send an elicitation; return the queue for its answer."""
        request_id = f"elicit-{next(self._ids)}"
        answer: queue.SimpleQueue[JsonObject] = queue.SimpleQueue()
        self._answers[request_id] = answer
        self._send({"id": request_id, "method": "elicitation/create", "params": params})
        return answer

    def _serve(self, request: JsonObject) -> None:
        params = object_at(request, "params")
        result: JsonObject | None = None
        error = {"code": METHOD_NOT_FOUND, "message": f"no method {request['method']}"}
        match request["method"]:
            case "initialize":
                time.sleep(self._script.start_delay)
                result = {
                    "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted-mcp", "version": "1"},
                }
            case "ping":
                result = {}
            case "tools/list":
                result = {"tools": [tool.listed() for tool in self._script.tools]}
            case "tools/call" if (tool := self._tools.get(str(params.get("name")))) is not None:
                result = self._call(tool)
            case "tools/call":
                error = {"code": INVALID_PARAMS, "message": f"no tool {params.get('name')!r}"}
        answer = {"error": error} if result is None else {"result": result}
        self._send({"id": request["id"], **answer})

    def _call(self, tool: McpTool) -> JsonObject:
        time.sleep(tool.delay)
        if not tool.elicitations and tool.result is not None:
            return tool.result
        text = tool.text
        if tool.elicitations:
            answers = [self._elicit(params).get() for params in tool.elicitations]
            text = json.dumps([a.get("result", {"error": a.get("error")}) for a in answers])
        return {"content": [{"type": "text", "text": text}], "isError": False}

    def _watch(self, triggers: Path) -> None:
        """Send the elicitation of each file that appears, and remove the file."""
        while True:
            for name, params in self._script.triggers.items():
                file = triggers / name
                if file.exists():
                    file.unlink()
                    self._elicit(params)
            time.sleep(POLL_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="codex_acp.testing.mcp_server")
    parser.add_argument("script", type=Path, help="the script, JSON")
    parser.add_argument("--record", help="append all traffic to this file, JSON lines")
    parser.add_argument("--triggers", type=Path, help="watch this directory for triggers")
    options = parser.parse_args(argv)
    try:
        script = McpScript.from_json(options.script.read_bytes())
        record = RecordWriter(options.record)
    except (MisuseError, OSError) as error:
        sys.stderr.write(f"scripted MCP server: {error}\n")
        return os.EX_SOFTWARE  # the script cannot be played
    if script.fail_status is not None:
        sys.stderr.write(f"{script.fail_text}\n")
        return script.fail_status
    _Server(script, record, sys.stdout.fileno()).run(sys.stdin.buffer, options.triggers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
