"""A login server in place of OpenAI's, where the person has typed the code already.

Codex is told of it by ``login --device-auth --experimental_issuer URL``.
"""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


def _token(claims: dict[str, object]) -> str:
    """A JSON Web Token that nobody has signed."""
    parts: tuple[dict[str, object], ...] = ({"alg": "none"}, claims, {})
    coded = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(part.decode().rstrip("=") for part in coded)


def _answers() -> dict[str, dict[str, object]]:
    account = {"chatgpt_plan_type": "plus", "chatgpt_account_id": "scripted"}
    who = _token({"email": "a@example.com", "https://api.openai.com/auth": account})
    return {
        "usercode": {"device_auth_id": "d", "user_code": "ABCD-1234", "interval": "0"},
        "deviceauth/token": {
            "authorization_code": "agreed", "code_challenge": "c", "code_verifier": "v",
        },
        "oauth/token": {"id_token": who, "access_token": who, "refresh_token": "r"},
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = [answer for end, answer in _answers().items() if self.path.endswith(end)]
        body = json.dumps(found[0] if found else {}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the terminal is the command's."""


class Issuer:
    """``with Issuer() as issuer:`` listens at ``issuer.url``."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
