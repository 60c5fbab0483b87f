"""A small MCP server on standard input and output that plays a script.

``python -P -m codex_acp.testing.mcp_server SCRIPT.json [--record OUT.jsonl] [--triggers DIR]``

Owns the process: the streams, a thread for each tool call (it may wait for an elicitation) and
one that watches for triggers; they end with the process, whatever they do. What it offers is in
``mcp_script``. Standard library only.

Source: Model Context Protocol, revisions 2025-06-18 and 2025-11-25; it accepts the client's.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from codex_acp._json import object_at
from codex_acp.errors import MisuseError
from codex_acp.testing.mcp_script import McpScript, McpTool
from codex_acp.testing.record_file import RecordWriter, write_all

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO


POLL_SECONDS = 0.02
"""How often the directory of triggers is looked at: there is no portable way to be told."""

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
STATUS_BAD_SCRIPT = 70
"""The exit status for a script that cannot be played (``EX_SOFTWARE``)."""

_Object: TypeAlias = "Mapping[str, object]"


class _Server:
    def __init__(self, script: McpScript, record: RecordWriter, output: int) -> None:
        self._script = script
        self._tools = {tool.name: tool for tool in script.tools}
        self._record = record
        self._output = output
        self._lock = threading.Lock()
        self._ids = itertools.count(1)
        self._waiting: dict[object, queue.SimpleQueue[_Object]] = {}

    def run(self, source: BinaryIO, triggers: Path | None) -> None:
        """Serve until the input ends."""
        if triggers is not None:
            threading.Thread(target=self._watch, args=(triggers,), daemon=True).start()
        for line in source:
            if not line.strip():
                continue
            message = json.loads(line)
            self._record.write("in", message=message)
            if "method" not in message:
                waiting = self._waiting.pop(message.get("id"), None)
                if waiting is not None:
                    waiting.put(message)
            elif "id" in message:
                # A thread each: a tool may wait for an answer that this loop has to read.
                threading.Thread(target=self._serve, args=(message,), daemon=True).start()
            elif message["method"] == "notifications/initialized":
                for params in self._script.after_initialize:
                    self._elicit(params)

    def _send(self, message: _Object) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._lock:
            self._record.write("out", message=message)
            write_all(self._output, data)

    def _elicit(self, params: _Object) -> queue.SimpleQueue[_Object]:
        """Send an elicitation; its answer comes through the queue."""
        request_id = f"elicit-{next(self._ids)}"
        waiting: queue.SimpleQueue[_Object] = queue.SimpleQueue()
        self._waiting[request_id] = waiting
        self._send({"id": request_id, "method": "elicitation/create", "params": params})
        return waiting

    def _serve(self, request: _Object) -> None:
        result, error = self._result(request)
        if error is not None:
            self._send({"id": request["id"], "error": error})
        else:
            self._send({"id": request["id"], "result": result})

    def _result(self, request: _Object) -> tuple[_Object, _Object | None]:
        params = object_at(request, "params")
        match request["method"]:
            case "initialize":
                time.sleep(self._script.start_delay)
                return {
                    "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "scripted-mcp", "version": "1"},
                }, None
            case "ping":
                return {}, None
            case "tools/list":
                return {"tools": [tool.listed() for tool in self._script.tools]}, None
            case "tools/call":
                tool = self._tools.get(str(params.get("name")))
                if tool is None:
                    name = params.get("name")
                    return {}, {"code": INVALID_PARAMS, "message": f"no tool {name!r}"}
                return self._call(tool), None
        message = f"no method {request['method']}"
        return {}, {"code": METHOD_NOT_FOUND, "message": message}

    def _call(self, tool: McpTool) -> _Object:
        time.sleep(tool.delay)
        if not tool.elicitations and tool.result is not None:
            return tool.result
        text = tool.text
        if tool.elicitations:
            answers = [self._elicit(params).get() for params in tool.elicitations]
            text = json.dumps([a.get("result", {"error": a.get("error")}) for a in answers])
        return {"content": [{"type": "text", "text": text}], "isError": False}

    def _watch(self, triggers: Path) -> None:
        """Send the elicitation of each file that appears, once for each time."""
        while True:
            for name, params in self._script.triggers.items():
                file = triggers / name
                if file.exists():
                    file.unlink()
                    self._elicit(params)
            time.sleep(POLL_SECONDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server; returns the exit status."""
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
        return STATUS_BAD_SCRIPT
    if script.fail_status is not None:
        sys.stderr.write(f"{script.fail_text}\n")
        return script.fail_status
    _Server(script, record, sys.stdout.fileno()).run(sys.stdin.buffer, options.triggers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
