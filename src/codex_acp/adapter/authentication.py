"""Log in to OpenAI and out, report the state of the login, and route model calls to a gateway.

Codex keeps the credentials; this module only passes an API key to Codex. The client names the
gateway (``providers/*``, unstable), which is process-wide and never stored. Codex gets the gateway
in the params of each thread that is opened; an open session is resumed with the gateway before its
next turn. Imported with the first request about a login or a gateway.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codex_acp._json import object_at, value_at
from codex_acp._urls import RefusedUrl, allowed_url
from codex_acp.acp.side import served_request_id
from codex_acp.adapter.login_check import can_open_pages, open_page
from codex_acp.adapter.mcp_logins import LoginOutcomes, open_until
from codex_acp.adapter.sessions.model_route import configuration
from codex_acp.codex._generated import models
from codex_acp.errors import CodexAcpError, ErrorReply, RpcError
from codex_acp.jsonrpc import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS
from codex_acp.mapping.agent import (
    ALIASES,
    API_KEY,
    API_KEY_VARIABLES,
    CHATGPT,
    DEVICE_CODE,
    DEVICE_CODE_ARGS,
    GATEWAY,
    LOGIN_ARGS,
    NOT_REQUIRED,
    TERMINAL,
    UNKNOWN,
    AuthStatus,
    auth_status,
)
from codex_acp.mapping.session_setup import API_TYPE, PROVIDER, configured_base_url, gateway_of
from codex_acp.transcript.given_values import secrets_in
from codex_acp.transcript.secrets import remember_secrets
from codex_acp.transport.shielding import shielded

if TYPE_CHECKING:
    import asyncio

    from codex_acp.adapter.client import Client
    from codex_acp.adapter.session_client import Json, SetProvider
    from codex_acp.adapter.sessions.opener import SessionOpener
    from codex_acp.adapter.sessions.sessions import Sessions
    from codex_acp.adapter.tasks import Spawn
    from codex_acp.codex.connection.app_server_connection import AppServerConnection
    from codex_acp.jsonrpc import JsonValue
    from codex_acp.mapping.session_setup import Gateway

    LoginOutcome = asyncio.Future[str | None]
    """Done when a login has ended: None for success, else the reason of the failure."""

logger = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 15 * 60.0
"""Seconds that a person may take to log in: a device code is valid for a quarter of an hour."""

LOGIN_COMPLETED: Final = "account/login/completed"

_CODEX_LOGINS: Final = (CHATGPT, DEVICE_CODE, API_KEY, TERMINAL)

CANCEL_SECONDS: Final = 5.0
"""Seconds that Codex may take to cancel a login."""


class Logins:
    """The logins of one agent. ``spawn`` starts a task that may outlive its request."""

    def __init__(
        self, opener: SessionOpener, client: Client, spawn: Spawn, providers: Providers
    ) -> None:
        self._opener = opener
        self._client = client
        self._spawn = spawn
        self._providers = providers
        self._pages = 0
        """Number of login pages until now, for the elicitation id of the next page."""
        opener.login.on_change = self._on_change
        self._sent_status: AuthStatus | None = None
        """The last state that the client got; None: the client never asked, and gets no updates."""

    async def authenticate(self, method: str, meta: dict[str, Any] | None) -> None:
        """Log in by ``method``; return when the person has logged in, or at once if the client
        brings no key and Codex already has this login or needs no login.

        Raises RpcError: -32602 for a method that is not offered, -32000 with the reason when the
        login failed, was declined or took too long."""
        if method == GATEWAY:
            await self._providers.log_in(meta)
            return
        codex = await self._opener.codex()
        method = ALIASES.get(method, method)
        try:
            brings_key = value_at(meta, API_KEY, "apiKey") is not None
            can_skip = method in _CODEX_LOGINS and not brings_key
            if can_skip and not (await _read_account(codex)).requires_openai_auth:
                return
            if method == API_KEY:
                await self._log_in_with_key(codex, meta)
            elif method in (CHATGPT, DEVICE_CODE):
                await self._log_in_with_chatgpt(codex, method)
            elif method == TERMINAL and await _account_type(codex) is not None:
                pass  # the client has run the login in its terminal
            else:
                raise _not_offered(method)
        except ErrorReply as error:
            raise _failure(f"Codex refused the login: {error.message}") from error
        except RpcError:
            raise
        except CodexAcpError as error:
            raise RpcError(INTERNAL_ERROR, f"Codex could not log in: {error}") from error

    async def log_in_by_default(self, login: dict[str, Any]) -> bool:
        """Log in as ``DEFAULT_AUTH_REQUEST`` says; return False for a gateway. Raises RpcError."""
        method, meta = login["methodId"], login.get("_meta")
        try:
            await self.authenticate(method, meta)
        except RpcError as error:
            message = f"the login of DEFAULT_AUTH_REQUEST: {error.message}"
            raise RpcError(AUTHENTICATION_REQUIRED, message) from error
        return bool(method != GATEWAY)

    async def log_out(self) -> None:
        """Forget Codex's credentials, and the gateway. Raises RpcError -32603."""
        codex = await self._opener.codex()
        try:
            await codex.account_logout()
        except CodexAcpError as error:
            raise RpcError(INTERNAL_ERROR, f"Codex could not log out: {error}") from error
        self._opener.login.forget()
        await self._providers.disable(PROVIDER)

    # Login methods.

    async def _log_in_with_key(
        self, codex: AppServerConnection, meta: dict[str, object] | None
    ) -> None:
        key = value_at(meta, API_KEY, "apiKey")
        if key is None:
            if await _account_type(codex) == "apiKey":
                return
            values = (os.environ.get(name, "").strip() for name in API_KEY_VARIABLES)
            key = next(filter(None, values), None)
        if not isinstance(key, str) or not key.strip():
            raise _failure(
                f"there is no API key: set {' or '.join(API_KEY_VARIABLES)} for this agent, or "
                f'send it as _meta["{API_KEY}"].apiKey'
            )
        await codex.account_login_start(models.ApiKeyLoginAccountParams(api_key=key.strip()))

    async def _log_in_with_chatgpt(self, codex: AppServerConnection, method: str) -> None:
        if await _account_type(codex) == "chatgpt":
            return
        by_code = method == DEVICE_CODE
        # A page can be opened without the client's help, but a code cannot be shown.
        agent_can_show = not by_code and can_open_pages(os.environ)
        if not self._client.features.elicitation_url and not agent_can_show:
            raise _not_offered(method)
        with LoginOutcomes(codex, LOGIN_COMPLETED) as outcomes:
            started = await codex.account_login_start(
                models.ChatgptDeviceCodeLoginAccountParams()
                if by_code
                else models.ChatgptLoginAccountParams()
            )
            if by_code and isinstance(started, models.ChatgptDeviceCodeLoginAccountResponse):
                url = started.verification_url
                remember_secrets([started.user_code])  # whoever reads the code could log in
                message = f"Log in to OpenAI on this page and type the code {started.user_code}."
            elif not by_code and isinstance(started, models.ChatgptLoginAccountResponse):
                url = started.auth_url
                message = "Log in to OpenAI in your browser, so that Codex can use your account."
            else:
                raise _failure("Codex answered with another kind of login")
            await self._wait_for_login(
                codex, started.login_id, outcomes.of(started.login_id), url, message
            )

    # Waiting for the person.

    async def _wait_for_login(
        self,
        codex: AppServerConnection,
        login_id: str,
        outcome: LoginOutcome,
        url: str,
        message: str,
    ) -> None:
        """Show the page and wait for ``outcome``. Cancel a failed login. Raises RpcError."""
        page = allowed_url(url)
        try:
            if isinstance(page, RefusedUrl):
                raise _failure(f"the login page was refused: {page.reason}")
            with anyio.move_on_after(LOGIN_SECONDS) as limit:
                await self._show_page(outcome, page.url, message)
            if limit.cancelled_caught:
                raise _failure(f"nobody logged in within {LOGIN_SECONDS / 60:g} minutes")
            why = outcome.result()
            if why is not None:
                raise _failure(f"the login failed: {why}")
        finally:
            if not outcome.done():
                params = models.CancelLoginAccountParams(login_id=login_id)
                with suppress(CodexAcpError), anyio.CancelScope(shield=True):
                    with anyio.move_on_after(CANCEL_SECONDS):
                        await codex.account_login_cancel(params)

    async def _show_page(self, outcome: LoginOutcome, url: str, message: str) -> None:
        """Show the page until ``outcome`` is done. Raises RpcError if the page cannot be shown."""
        if not self._client.features.elicitation_url:
            if not await open_page(url):
                raise _failure(f"no browser could be opened; open this page yourself: {url}")
            await shielded(outcome)
            return
        self._pages += 1
        request = {
            "mode": "url",
            "requestId": served_request_id(),
            "elicitationId": f"login-{self._pages}",
            "url": url,
            "message": message,
        }
        refusal = await open_until(self._client.questioner, request, outcome)
        if refusal is not None:
            raise _failure(refusal)

    # The state of the login.

    async def status(self) -> dict[str, JsonValue]:
        """Return the answer to ``auth/status`` (unstable); the client gets each later change."""
        self._sent_status = await self._read_status()
        return self._sent_status.wire()

    async def _read_status(self) -> AuthStatus:
        if self._opener.route.gateway is not None:
            return NOT_REQUIRED
        try:
            codex = await self._opener.codex()
            self._opener.login.follow(codex)
            return auth_status(await _read_account(codex))
        except CodexAcpError as error:
            logger.warning("Codex does not tell who is logged in: %s", error)
            return UNKNOWN

    async def _send_status(self) -> None:
        now = await self._read_status()
        if self._sent_status is not None and now != self._sent_status:
            self._sent_status = now
            if not self._client.gone:
                self._client.questioner.auth_status(now.wire())

    def _on_change(self) -> None:
        """Send the client the new state, after a login or logout here or in another process."""
        if self._sent_status is not None:
            self._spawn(self._send_status)


async def _read_account(codex: AppServerConnection) -> models.GetAccountResponse:
    return await codex.account_read(models.GetAccountParams(refresh_token=False))


async def _account_type(codex: AppServerConnection) -> str | None:
    """Return the kind of login that Codex has; None without a login."""
    return getattr((await _read_account(codex)).account, "type", None)


def _failure(message: str) -> RpcError:
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


class Providers:
    """The model providers of one agent and its sessions."""

    def __init__(self, opener: SessionOpener, sessions: Sessions) -> None:
        self._opener = opener
        self._sessions = sessions

    async def list(self) -> Json:
        """Return the one provider that can be routed, with its address, without headers."""
        gateway = self._opener.route.gateway
        if gateway is None:
            codex = await self._opener.codex()
            # The root folder belongs to no project: only the user's configuration counts.
            url = configured_base_url(await configuration(codex, "/"))
        else:
            url = gateway.base_url
        provider: JsonValue = {
            "providerId": PROVIDER,
            "supported": [API_TYPE],
            "required": False,
            "current": {"apiType": API_TYPE, "baseUrl": url},
        }
        return {"providers": [provider]}

    async def set(self, request: SetProvider) -> None:
        """Route the model calls of each session to a gateway, from its next turn on.

        Raises RpcError -32602 for another provider or protocol, an invalid address or an invalid
        header; then the gateway stays as it was."""
        if request.provider_id != PROVIDER:
            raise RpcError(INVALID_PARAMS, f"providerId: only {PROVIDER!r} can be configured")
        if request.api_type != API_TYPE:
            raise RpcError(INVALID_PARAMS, f"apiType: Codex speaks {API_TYPE!r} alone")
        await self._route(gateway_of(request.base_url, request.headers))

    async def disable(self, provider_id: str) -> None:
        """Forget the gateway; no effect for an unknown provider."""
        if provider_id == PROVIDER:
            await self._route(None)

    async def log_in(self, meta: dict[str, object] | None) -> None:
        """Route the model calls to ``_meta.gateway``, as the official adapter does."""
        settings = object_at(meta, "gateway")
        name, where = settings.get("providerName"), "_meta.gateway."
        named = {"name": name} if isinstance(name, str) and name.strip() else {}
        url, headers = settings.get("baseUrl"), settings.get("headers")
        await self._route(gateway_of(url, headers, where=where, **named))

    async def _route(self, gateway: Gateway | None) -> None:
        if gateway == self._opener.route.gateway:
            return
        if gateway is not None:
            remember_secrets(secrets_in({"url": gateway.base_url, "headers": gateway.headers}))
            self._opener.route.had_gateway = True
            logger.info("model calls go through %s", gateway.base_url)
        self._opener.route.gateway = gateway
        self._sessions.mark_all_unloaded()
        if self._opener.login.on_change is not None:
            self._opener.login.on_change()
