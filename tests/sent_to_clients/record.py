"""``python -m tests.sent_to_clients.record [NAME...]``: records conversations anew, all or some.

Needs the real Codex. What was recorded is in ``wire/``; the golden pages are made from that by
``CODEX_ACP_UPDATE_GOLDEN=1 pytest tests/sent_to_clients``.
"""

from __future__ import annotations

import asyncio
import sys

from tests.sent_to_clients.conversation import save
from tests.sent_to_clients.recorder import record
from tests.sent_to_clients.scenes_tools import SCENES as TOOLS
from tests.sent_to_clients.scenes_turns import SCENES as TURNS

SCENES = (*TOOLS, *TURNS)


def main(names: list[str]) -> int:
    """Record; the exit status."""
    known = {scene.name: scene for scene in SCENES}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.stderr.write(f"no scenes of these names: {unknown}; there are {sorted(known)}\n")
        return 2
    for name in names or known:
        path = save(asyncio.run(record(known[name])))
        sys.stderr.write(f"{path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
