"""The tap on every connection to our adapter: schema, capabilities and stream, all at once.

Each bench that runs the adapter has one; what it found is raised when the bench is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import Lock
from typing import Any, Literal

from tests.support.acp_schema import SchemaTap, SideName
from tests.support.capability_tap import unadvertised
from tests.support.stream_rules import StreamRules


class AdapterTap(SchemaTap):
    """A `SchemaTap` to be put on the agent's side: ``tap.on("agent")`` gets each line.

    ``capabilities`` are what the client said of itself, in the words of the newest version that it
    has. May be called from two threads, one for
    each direction.
    """

    def __init__(self) -> None:
        super().__init__()
        self.capabilities: object = None
        self._rules = StreamRules()
        self._methods: dict[str, str] = {}
        """The client's requests by id."""
        self._ended: set[str] = set()
        """Those that were answered, or given up by the client."""
        self._lock = Lock()

    def on(self, side: SideName) -> Callable[[Literal["received", "sent"], bytes], None]:
        """See `SchemaTap.on`; of the client's side only the shapes are checked."""
        checked = super().on(side)
        if side == "client":
            return checked

        def on_line(direction: Literal["received", "sent"], line: bytes) -> None:
            with self._lock:
                known = len(self.problems)
                checked(direction, line)
                message = _object(line)
                if message is None:
                    return
                if direction == "received":
                    self._from_client(message)
                else:
                    self._from_agent(message, fits=len(self.problems) == known)

        return on_line

    def check(self) -> None:
        """See `SchemaTap.check`; also what was against the rules of the stream."""
        problems = self.problems + self._rules.problems
        assert not problems, "\n".join(problems)

    def left_open(self) -> list[str]:
        """Methods of the client's requests that have no answer, and that it did not give up.

        A request that was too long to be read is answered without its id.
        """
        unread = sum("error" in m and m.get("id") is None for m in self.sent_by("agent"))
        keys = self._methods.keys() - self._ended
        return sorted(self._methods[key] for key in keys)[unread:]

    def _from_client(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params")
        if isinstance(method, str) and message.get("id") is not None:
            self._methods[json.dumps(message["id"])] = method
            if method == "initialize" and self.capabilities is None and isinstance(params, dict):
                of_v1 = params.get("clientCapabilities")
                self.capabilities = params.get("capabilities") if of_v1 is None else of_v1
        elif method == "$/cancel_request" and isinstance(params, dict):
            self._ended.add(json.dumps(params.get("requestId")))
        self._rules.from_client(message)

    def _from_agent(self, message: dict[str, Any], *, fits: bool) -> None:
        key = json.dumps(message.get("id"))
        asked = None if "method" in message else self._methods.get(key)
        if asked is not None:
            self._ended.add(key)
        self._rules.version = self.version
        found = unadvertised(message, asked, self.capabilities, self.version)
        self.problems += [f"{problem}: {message}" for problem in found]
        if fits:  # what has no shape cannot be followed
            self._rules.from_agent(message)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
