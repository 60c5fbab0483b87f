"""Print a recorded stream of the Codex app-server as ACP's updates, in both versions.

python examples/bridge_updates.py < what-the-app-server-wrote.jsonl
"""

from __future__ import annotations

import json
import sys

from codex_acp.bridge import Bridge


def main() -> None:
    bridge: Bridge | None = None
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if method is None or "id" in message:
            continue  # a reply, or a request: see bridge_question.py
        if bridge is None and "threadId" in params:
            bridge = Bridge(params["threadId"])
        if bridge is not None:
            told = bridge.heard(method, params)
            for update in told.v1():
                print("v1", update.model_dump_json(by_alias=True, exclude_unset=True))
            for update_v2 in told.v2():
                print("v2", update_v2.model_dump_json(by_alias=True, exclude_unset=True))


if __name__ == "__main__":
    main()
