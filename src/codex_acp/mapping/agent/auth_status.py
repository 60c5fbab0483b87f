"""Map the login to ACP's unstable ``auth/status``, which both versions write alike.

Source: ``AuthState`` and ``AuthAccount`` of ACP's schema; ``GetAccountResponse`` of Codex's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from codex_acp.codex._generated import models
from codex_acp.routing.display import visible

if TYPE_CHECKING:
    from codex_acp.jsonrpc.message import JsonValue


class AuthStatus(NamedTuple):
    """Whether a login is needed, and the account that is there."""

    state: str
    label: str | None = None
    """The account's name for a person; None: there is none."""
    email: str | None = None
    active: bool = True
    """Whether the configured model provider uses it."""

    def wire(self) -> dict[str, JsonValue]:
        """As ``AuthStatusResponse``, and as the params of ``auth/status_update``."""
        if self.label is None:
            return {"state": self.state, "accounts": []}
        account: dict[str, JsonValue] = {"label": self.label, "active": self.active}
        if self.email:
            account["email"] = self.email
        return {"state": self.state, "accounts": [account]}


UNKNOWN: Final = AuthStatus("unknown")
"""While Codex cannot be asked."""

NOT_REQUIRED: Final = AuthStatus("not_required")
"""While a gateway of the client answers."""

_KINDS: Final = {"amazonBedrock": "Amazon Bedrock", "gcp": "Google Cloud"}


def auth_status(account: models.GetAccountResponse) -> AuthStatus:
    """How the login stands, from ``account/read``."""
    who, needed = account.account, account.requires_openai_auth
    if who is None:
        return AuthStatus("unauthenticated" if needed else "not_required")
    state = "authenticated" if needed else "not_required"
    if isinstance(who, models.ChatgptAccount):
        plan = str(who.plan_type)
        label = "ChatGPT" if plan == "unknown" else f"ChatGPT {plan[:1].upper()}{plan[1:]}"
        email = None if who.email is None else visible(who.email)
        return AuthStatus(state, visible(label), email, active=needed)
    if isinstance(who, models.ApiKeyAccount):
        return AuthStatus(state, "OpenAI API key", active=needed)
    kind = str(getattr(who, "type", "another account"))
    return AuthStatus(state, visible(_KINDS.get(kind, kind)), active=True)
