"""Clients that are not ours need node and packages from npm: `nox -s clients` brings both."""

from __future__ import annotations

import os

from tests.clients.third_party import TREE_VARIABLE

collect_ignore_glob: list[str] = [] if os.environ.get(TREE_VARIABLE) else ["test_*.py"]
