"""Logging in to OpenAI and out again, and whether that is needed at all.

Owns the logins that run. Codex keeps the credentials; this module sees a key only to pass it on.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codex_acp._json import value_at
from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.acp.served_request import served_request_id
from codex_acp.adapter.logins.pages import Ends, open_until
from codex_acp.adapter.logins.ways import can_open_pages, open_page
from codex_acp.codex._generated import models
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc.message import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.mapping.agent.auth_methods import (
    ALIASES,
    API_KEY,
    API_KEY_VARIABLES,
    CHATGPT,
    DEVICE_CODE,
    DEVICE_CODE_ARGS,
    LOGIN_ARGS,
    TERMINAL,
)
from codex_acp.transcript.secrets import remember_secrets
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    import asyncio

    from codex_acp.adapter.client import Client
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

    End = asyncio.Future[str | None]
    """Done when a login has ended: None for success, else why not."""

logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 15 * 60.0
"""How long a person may take: a device code is good for a quarter of an hour."""

COMPLETED: Final = "account/login/completed"

_WAYS: Final = (CHATGPT, DEVICE_CODE, API_KEY, TERMINAL)

CANCEL_SECONDS: Final = 5.0
"""How long Codex may take to give up a login that nobody waits for any more."""


class Authentication:
    """``authenticate`` and ``logout``, for one client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pages = 0

    async def authenticate(
        self, method: str, meta: dict[str, Any] | None, codex: AppServerConnection
    ) -> None:
        """Log in by the method that the person chose; returns when that is done.

        At once if that login is there already, whoever made it, or if Codex needs none, and the
        client brings no key.

        Raises RpcError: -32602 for a method that is not offered, -32000 with the reason when the
        login failed, was declined or took too long.
        """
        method = ALIASES.get(method, method)
        try:
            if method in _WAYS and not _brings_key(meta) and await _needs_none(codex):
                return
            if method == API_KEY:
                await self._with_key(codex, meta)
            elif method in (CHATGPT, DEVICE_CODE):
                await self._with_chatgpt(codex, method)
            elif method == TERMINAL and await _account(codex) is not None:
                pass  # the client ran it in its terminal, and tells us so
            else:
                raise _not_offered(method)
        except ErrorReply as error:
            raise _failed(f"Codex refused the login: {error.message}") from error
        except RpcError:
            raise
        except CodexAcpError as error:
            raise RpcError(INTERNAL_ERROR, f"Codex could not log in: {error}") from error

    async def log_out(self, codex: AppServerConnection) -> None:
        """Forget the credentials that Codex keeps. Raises RpcError -32603 with Codex's reason."""
        try:
            await codex.account_logout()
        except CodexAcpError as error:
            raise RpcError(INTERNAL_ERROR, f"Codex could not log out: {error}") from error

    # The ways in.

    async def _with_key(self, codex: AppServerConnection, meta: dict[str, object] | None) -> None:
        key = value_at(meta, API_KEY, "apiKey")
        if key is None and await _account(codex) == "apiKey":
            return
        if key is None:
            found = (os.environ.get(name, "").strip() for name in API_KEY_VARIABLES)
            key = next(filter(None, found), None)
        if not isinstance(key, str) or not key.strip():
            raise _failed(
                f"there is no API key: set {' or '.join(API_KEY_VARIABLES)} for this agent, or "
                f'send it as _meta["{API_KEY}"].apiKey'
            )
        await codex.account_login_start(models.ApiKeyLoginAccountParams(api_key=key.strip()))

    async def _with_chatgpt(self, codex: AppServerConnection, method: str) -> None:
        if await _account(codex) == "chatgpt":
            return
        by_code, shown = method == DEVICE_CODE, self._client.features.elicitation_url
        if not shown and (by_code or not can_open_pages(os.environ)):
            raise _not_offered(method)
        with Ends(codex, COMPLETED) as ends:
            started = await codex.account_login_start(
                models.ChatgptDeviceCodeLoginAccountParams()
                if by_code
                else models.ChatgptLoginAccountParams()
            )
            if by_code and isinstance(started, models.ChatgptDeviceCodeLoginAccountResponse):
                url = started.verification_url
                remember_secrets([started.user_code])  # whoever reads it could log in with it
                message = f"Log in to OpenAI on this page and type the code {started.user_code}."
            elif not by_code and isinstance(started, models.ChatgptLoginAccountResponse):
                url = started.auth_url
                message = "Log in to OpenAI in your browser, so that Codex can use your account."
            else:
                raise _failed("Codex answered with another kind of login")
            await self._wait(codex, started.login_id, ends.of(started.login_id), url, message)

    # Waiting for the person.

    async def _wait(
        self, codex: AppServerConnection, login_id: str, end: End, url: str, message: str
    ) -> None:
        """Show the page and wait until Codex says how the login ended; else give it up."""
        page = allowed_url(url)
        try:
            if isinstance(page, RefusedUrl):
                raise _failed(f"the login page was refused: {page.reason}")
            with anyio.move_on_after(LOGIN_SECONDS) as limit:
                await self._until(end, page.url, message)
            if limit.cancelled_caught:
                raise _failed(f"nobody logged in within {LOGIN_SECONDS / 60:g} minutes")
            why = end.result()
            if why is not None:
                raise _failed(f"the login failed: {why}")
        finally:
            if not end.done():
                await self._give_up(codex, login_id)

    async def _until(self, end: End, url: str, message: str) -> None:
        """Return when ``end`` is done. Raises RpcError if the person does not get to the page."""
        if not self._client.features.elicitation_url:
            if not await open_page(url):
                raise _failed(f"no browser could be opened; open this page yourself: {url}")
            await shielded(end)
            return
        self._pages += 1
        request = {
            "mode": "url",
            "requestId": served_request_id(),
            "elicitationId": f"login-{self._pages}",
            "url": url,
            "message": message,
        }
        refusal = await open_until(self._client.asks, request, end)
        if refusal is not None:
            raise _failed(refusal)

    async def _give_up(self, codex: AppServerConnection, login_id: str) -> None:
        with suppress(CodexAcpError), anyio.CancelScope(shield=True):
            with anyio.move_on_after(CANCEL_SECONDS):
                await codex.account_login_cancel(models.CancelLoginAccountParams(login_id=login_id))


def _brings_key(meta: dict[str, object] | None) -> bool:
    return value_at(meta, API_KEY, "apiKey") is not None


async def _needs_none(codex: AppServerConnection) -> bool:
    """Whether the configured model provider is asked without a login."""
    account = await codex.account_read(models.GetAccountParams(refresh_token=False))
    return not account.requires_openai_auth


async def _account(codex: AppServerConnection) -> str | None:
    """The kind of login that is there already; None if there is none."""
    account = (await codex.account_read(models.GetAccountParams(refresh_token=False))).account
    return getattr(account, "type", None)


def _failed(message: str) -> RpcError:
    return RpcError(AUTHENTICATION_REQUIRED, message)


def _not_offered(method: str) -> RpcError:
    args = {CHATGPT: LOGIN_ARGS, TERMINAL: LOGIN_ARGS, DEVICE_CODE: DEVICE_CODE_ARGS}.get(method)
    if args is not None:
        message = (
            f"methodId: {method!r} cannot be shown by this client: "
            f"run `codex-acp-sdk {' '.join(args)}` in a terminal first"
        )
    else:
        message = f"methodId: {method!r} is not among this agent's authMethods"
    return RpcError(INVALID_PARAMS, message)
