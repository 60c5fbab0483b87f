"""Support for tests of Codex, agents and clients, without an account and a network.

With the real Codex:

* :class:`ScriptedModel`: a model on a loopback port that sends the responses of a script.
* :class:`CodexHome`: a temporary ``CODEX_HOME`` whose Codex uses that model.
* :class:`ScriptedMcpServer`: an MCP server with scripted tools and elicitations.

For your own agents and clients, without Codex:

* :class:`ScriptedAgent`: an ACP agent that plays a script.
* :class:`ScriptedClient`: an ACP client with scripted answers.

In place of the real Codex:

* :class:`ScriptedCodex`: an executable that plays a script as ``codex app-server``.
* :class:`ScriptedAppServer`: an app-server in memory that plays a script.
* :class:`AppServerPlayer`: the player inside these two, without IO.

For pytest, ``scripted_model`` and ``codex_acp_home`` are fixtures.

For example::

    script = [[exec_command("ls")], [Text("Two ", "files.")]]  # a list for each response
    with ScriptedModel(script) as model, CodexHome(model.base_url) as home:
        subprocess.Popen(["codex", "app-server"], env=home.env, ...)

Each name loads its module at its first use.
"""

from __future__ import annotations

from codex_acp._lazy import lazy

__all__, __getattr__, __dir__ = lazy(
    __name__,
    {
        "app_server": "AppServerRecord ScriptedCodex",
        "app_server_link": "ScriptedAppServer",
        "app_server_script": (
            "AppServerPlayer AppServerScript AskClient AwaitAnswer ClientAnswer CloseOutput "
            "Entry Exit Expect ExpectNotification Notify Output Pause RawLine Send Silence "
            "StderrText agent_message command_approval file_change_approval request_resolved "
            "turn_completed turn_started"
        ),
        "codex_home": "CodexHome",
        "mcp_server": ("McpScript McpTool ScriptedMcpServer form_elicitation url_elicitation"),
        "model_script": (
            "CustomToolCall Delay Disconnect Fail Failed Gate Incomplete ModelRequest "
            "ModelResponse ModelScript Reasoning Step Text ToolCall Usage When add_file "
            "apply_patch exec_command mcp_call request_permissions request_user_input "
            "update_plan view_image words write_stdin"
        ),
        "scripted_model": "ScriptedModel",
        "scripted_peers": (
            "AgentStep AskPermission ClientTurn ScriptedAgent ScriptedClient UntilCancelled"
        ),
    },
)
