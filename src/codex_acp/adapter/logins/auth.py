"""Logging in to OpenAI and out again, and whether that is needed at all.

Owns the logins that run. Codex keeps the credentials; this module sees a key only to pass it on.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import anyio

from codex_acp.acp._generated.v1.models import (
    AuthenticateResponse,
    RequestUrlCreateElicitationRequest,
)
from codex_acp.acp.served_request import served_request_id
from codex_acp.adapter.logins.pages import Ends, open_until
from codex_acp.adapter.logins.ways import can_open_pages, open_page
from codex_acp.codex._generated.models import (
    ApiKeyLoginAccountParams,
    CancelLoginAccountParams,
    ChatgptDeviceCodeLoginAccountParams,
    ChatgptDeviceCodeLoginAccountResponse,
    ChatgptLoginAccountParams,
    ChatgptLoginAccountResponse,
    GetAccountParams,
)
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc.message import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.mapping.agent.auth_methods import (
    API_KEY,
    API_KEY_VARIABLES,
    CHATGPT,
    DEVICE_CODE,
    DEVICE_CODE_ARGS,
    LOGIN_ARGS,
    TERMINAL,
)
from codex_acp.routing.urls import RefusedUrl, allowed_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codex_acp.acp._generated.v1.models import AuthenticateRequest
    from codex_acp.acp.capabilities import ClientFeatures
    from codex_acp.adapter.audience import Asks
    from codex_acp.codex.connection.app_server_connection import AppServerConnection

    End = asyncio.Future[str | None]
    """Done when a login has ended: None for success, else why not."""

logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 15 * 60.0
"""How long a person may take: a device code is good for a quarter of an hour."""

COMPLETED: Final = "account/login/completed"

CANCEL_SECONDS: Final = 5.0
"""How long Codex may take to give up a login that nobody waits for any more."""


class Authentication:
    """``authenticate``, ``logout``, and the check before a session.

    ``side`` and ``features`` are asked when they are needed: the client is known then.
    """

    def __init__(
        self,
        side: Callable[[], Asks],
        features: Callable[[], ClientFeatures],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._side = side
        self._features = features
        self._environment = os.environ if environment is None else environment
        self._pages = 0

    async def authenticate(
        self, request: AuthenticateRequest, codex: AppServerConnection
    ) -> AuthenticateResponse:
        """Log in by the method that the person chose; returns when that is done.

        At once if that login is there already, whoever made it.

        Raises RpcError: -32602 for a method that is not offered, -32000 with the reason when the
        login failed, was declined or took too long.
        """
        method = request.method_id
        try:
            if method == API_KEY:
                await self._with_key(codex, request.meta)
            elif method == CHATGPT:
                await self._in_browser(codex)
            elif method == DEVICE_CODE:
                await self._with_code(codex)
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
        return AuthenticateResponse()

    async def log_out(self, codex: AppServerConnection) -> None:
        """Forget the credentials that Codex keeps. Raises RpcError -32603 with Codex's reason."""
        try:
            await codex.account_logout()
        except CodexAcpError as error:
            raise RpcError(INTERNAL_ERROR, f"Codex could not log out: {error}") from error

    # The ways in.

    async def _with_key(self, codex: AppServerConnection, meta: dict[str, object] | None) -> None:
        given = (meta or {}).get(API_KEY)
        key = given.get("apiKey") if isinstance(given, dict) else None
        if key is None and await _account(codex) == "apiKey":
            return
        if key is None:
            found = (self._environment.get(name, "").strip() for name in API_KEY_VARIABLES)
            key = next(filter(None, found), None)
        if not isinstance(key, str) or not key.strip():
            raise _failed(
                f"there is no API key: set {' or '.join(API_KEY_VARIABLES)} for this agent, or "
                f'send it as _meta["{API_KEY}"].apiKey'
            )
        await codex.account_login_start(ApiKeyLoginAccountParams(api_key=key.strip()))

    async def _in_browser(self, codex: AppServerConnection) -> None:
        if await _account(codex) == "chatgpt":
            return
        if not self._features().elicitation_url and not can_open_pages(self._environment):
            raise _not_offered(CHATGPT)
        with Ends(codex, COMPLETED) as ends:
            started = await codex.account_login_start(ChatgptLoginAccountParams())
            if not isinstance(started, ChatgptLoginAccountResponse):
                raise _failed("Codex answered with another kind of login")
            message = "Log in to OpenAI in your browser, so that Codex can use your account."
            end = ends.of(started.login_id)
            await self._wait(codex, started.login_id, end, started.auth_url, message)

    async def _with_code(self, codex: AppServerConnection) -> None:
        if await _account(codex) == "chatgpt":
            return
        if not self._features().elicitation_url:
            raise _not_offered(DEVICE_CODE)
        with Ends(codex, COMPLETED) as ends:
            started = await codex.account_login_start(ChatgptDeviceCodeLoginAccountParams())
            if not isinstance(started, ChatgptDeviceCodeLoginAccountResponse):
                raise _failed("Codex answered with another kind of login")
            message = f"Log in to OpenAI on this page and type the code {started.user_code}."
            end = ends.of(started.login_id)
            await self._wait(codex, started.login_id, end, started.verification_url, message)

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
        if not self._features().elicitation_url:
            if not await open_page(url):
                raise _failed(f"no browser could be opened; open this page yourself: {url}")
            await asyncio.shield(end)
            return
        self._pages += 1
        request = RequestUrlCreateElicitationRequest(
            request_id=served_request_id(),
            elicitation_id=f"login-{self._pages}",
            url=url,
            message=message,
        )
        refusal = await open_until(self._side(), request, end)
        if refusal is not None:
            raise _failed(refusal)

    async def _give_up(self, codex: AppServerConnection, login_id: str) -> None:
        with suppress(CodexAcpError), anyio.CancelScope(shield=True):
            with anyio.move_on_after(CANCEL_SECONDS):
                await codex.account_login_cancel(CancelLoginAccountParams(login_id=login_id))


async def _account(codex: AppServerConnection) -> str | None:
    """The kind of login that is there already; None if there is none."""
    account = (await codex.account_read(GetAccountParams(refresh_token=False))).account
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
