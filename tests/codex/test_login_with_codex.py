"""Programs where nobody is logged in to the real Codex: they are told before the first turn."""

from __future__ import annotations

import anyio
import pytest

from codex_acp.codex import CodexClient, LaunchOptions
from codex_acp.codex.sync import Codex
from codex_acp.errors import NotLoggedIn
from codex_acp.testing import CodexHome, ScriptedModel, Text

pytestmark = pytest.mark.e2e

WAIT_SECONDS = 60


def test_the_first_lines_of_a_newcomer_say_that_nobody_is_logged_in() -> None:
    with (
        CodexHome(config={"model_provider": "openai"}) as home,
        Codex(LaunchOptions(env=home.env)) as codex,
    ):
        thread = codex.threads.start(cwd=str(home.workspace))
        with pytest.raises(NotLoggedIn, match="run `codex-acp-sdk login`"):
            thread.run("What is in this directory?")


async def test_a_turn_without_a_login_never_begins() -> None:
    with CodexHome(config={"model_provider": "openai"}) as home, anyio.fail_after(WAIT_SECONDS):
        async with CodexClient.start(LaunchOptions(env=home.env)) as codex:
            thread = await codex.threads.start(cwd=str(home.workspace))
            with pytest.raises(NotLoggedIn):
                async with thread.turn("What is in this directory?"):
                    pass
            with pytest.raises(NotLoggedIn):
                await thread.compact()


async def test_a_thread_whose_own_model_provider_needs_no_login_runs() -> None:
    with (
        ScriptedModel([[Text("Done.")]]) as model,
        CodexHome(model.base_url, config={"model_provider": "openai"}) as home,
        anyio.fail_after(WAIT_SECONDS),
    ):
        async with CodexClient.start(LaunchOptions(env=home.env)) as codex:
            thread = await codex.threads.start(cwd=str(home.workspace), model_provider="scripted")
            assert (await thread.run("Go.")).text == "Done."
