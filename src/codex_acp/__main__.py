"""``python -m codex_acp``: the command ``codex-acp-sdk``."""

from __future__ import annotations

import sys

from codex_acp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
