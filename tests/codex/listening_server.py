"""A real app-server that listens on a socket, for clients that join it."""

from __future__ import annotations

import re
import subprocess
import threading
from typing import Final, Self

from codex_acp.codex import find_codex
from codex_acp.testing import CodexHome

START_SECONDS: Final = 30
"""A cold start on a busy machine; usually a tenth of a second."""


class ListeningServer:
    """``with ListeningServer(home, "ws://127.0.0.1:0", *options) as server``: ``server.url``."""

    def __init__(self, home: CodexHome, listen: str, *options: str) -> None:
        self._command = [find_codex().path, "app-server", "--listen", listen, *options]
        self._home = home
        self._listen = listen
        self.url = listen

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            env=self._home.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        killer = threading.Timer(START_SECONDS, self.process.kill)
        killer.start()
        try:
            if self._listen.startswith("ws://"):
                self.url = self._told_url()
            else:
                self._wait_for_socket()
        finally:
            killer.cancel()
        self._drain = threading.Thread(target=self._read_rest, daemon=True)
        self._drain.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it, now."""
        self.process.kill()
        self.process.wait()
        self._drain.join(START_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def _told_url(self) -> str:
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            found = re.search(r"listening on: (ws://\S+)", line)
            if found:
                return found.group(1)
        message = f"the app-server ended: {said}"
        raise AssertionError(message)

    def _wait_for_socket(self) -> None:
        import socket
        import time

        path = self._listen.removeprefix("unix://")
        while True:  # until it takes a connection, or the timer has killed it
            with socket.socket(socket.AF_UNIX) as probe:
                try:
                    probe.connect(path)
                except OSError:
                    if self.process.poll() is not None:
                        raise
                else:
                    return
            time.sleep(0.01)

    def _read_rest(self) -> None:
        assert self.process.stderr is not None
        for _line in self.process.stderr:
            pass
