"""``python -P -m codex_acp``: the command ``codex-acp-sdk``."""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    # The working directory, from which a stranger's modules could be imported.
    del sys.path[0]

from codex_acp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
