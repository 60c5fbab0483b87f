"""A Chromium without a screen, driven over its DevTools protocol."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from websockets.sync.client import connect

WAIT_SECONDS = 120
"""Bound of every wait here; a busy machine takes ten times what a quiet one does."""

NAMES = ("chromium", "chromium-browser", "google-chrome")

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-port=0",
)  # fmt: skip


def find_chromium() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One page of a Chromium of its own; ``with Chromium() as page``."""

    def __init__(self) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._stack = contextlib.ExitStack()
        self.requests: list[str] = []
        """What was loaded, as the browser tells it."""
        self.complaints: list[str] = []
        """Exceptions, errors of the console, and what the page's policy has blocked."""

    def __enter__(self) -> Self:
        program = find_chromium()
        assert program is not None
        self._process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port, path = self._port()
            browser = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, proxy=None)
            self._socket = self._stack.enter_context(browser)
            self._id, self._session = 0, ""
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end()

    def _end(self) -> None:
        self._stack.close()
        self._process.kill()
        self._process.wait()
        for _ in range(20):
            shutil.rmtree(self._profile, ignore_errors=True)
            if not Path(self._profile).exists():
                break
            time.sleep(0.1)

    def _port(self) -> list[str]:
        deadline = time.monotonic() + WAIT_SECONDS
        file = Path(self._profile, "DevToolsActivePort")
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                found = file.read_text().split("\n")
                if len(found) == 2:
                    return found
            time.sleep(0.05)
        message = "Chromium did not start"
        raise TimeoutError(message)

    def call(self, method: str, **params: object) -> Any:
        """A call of the DevTools protocol; what happens meanwhile is noted."""
        self._id += 1
        message: dict[str, object] = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(timeout=WAIT_SECONDS))
            if answer.get("id") == self._id:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer.get("method"), answer.get("params", {}))

    def _note(self, method: str | None, params: Any) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {params['message']}")

    def open(self, file: Path) -> None:
        """Load a file, and wait until its script has run."""
        self.call("Page.navigate", url=file.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        done = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def wait(self, expression: str) -> None:
        """Until an expression is true."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.run(f"Boolean({expression})"):
            assert time.monotonic() < deadline, expression
            time.sleep(0.02)

    def press(self, key: str) -> None:
        """One key; a character, or a name such as ``Escape``."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
        code: dict[str, object] = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)
        self.settle()

    def settle(self) -> None:
        """Until what was drawn last can be seen."""
        twice = "new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d(1))))"
        self.run(twice)

    def size(self, width: int, height: int, scheme: str = "light") -> None:
        """The window's size, and which of light and dark the person prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.settle()

    def screenshot(self, file: Path) -> None:
        """As PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
