"""The public names of the protocol: all models, the server's notifications and its requests.

Owns nothing: every name comes from the generated modules, loaded when it is first used.
``from codex_acp.codex.types import Turn, TurnCompletedEvent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codex_acp.codex._generated.models import *  # noqa: F403
    from codex_acp.codex._generated.notifications import *  # noqa: F403
    from codex_acp.codex._generated.server_requests import *  # noqa: F403
else:
    from importlib import import_module

    def __getattr__(name):
        if not name.startswith("_"):
            package = "codex_acp.codex._generated"
            for module in ("models", "server_requests", "notifications"):
                value = getattr(import_module(f"{package}.{module}"), name, None)
                if value is not None:
                    globals()[name] = value
                    return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        from codex_acp.codex._generated.models import MODULE_OF
        from codex_acp.codex._generated.notifications import NOTIFICATION_CLASSES
        from codex_acp.codex._generated.server_requests import REQUEST_CLASSES

        classes = {*NOTIFICATION_CLASSES.values(), *REQUEST_CLASSES.values()}
        unions = {"ServerNotification", "ServerRequest", "UnknownNotification", "RequestHandlers"}
        return sorted({*MODULE_OF, *(cls.__name__ for cls in classes), *unions})
