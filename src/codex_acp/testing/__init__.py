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

TYPE_CHECKING = False  # without importing typing, which takes time
if TYPE_CHECKING:
    from codex_acp.testing.app_server import AppServerRecord as AppServerRecord
    from codex_acp.testing.app_server import ScriptedCodex as ScriptedCodex
    from codex_acp.testing.app_server_link import ScriptedAppServer as ScriptedAppServer
    from codex_acp.testing.app_server_script import AppServerPlayer as AppServerPlayer
    from codex_acp.testing.app_server_script import AppServerScript as AppServerScript
    from codex_acp.testing.app_server_script import AskClient as AskClient
    from codex_acp.testing.app_server_script import AwaitAnswer as AwaitAnswer
    from codex_acp.testing.app_server_script import ClientAnswer as ClientAnswer
    from codex_acp.testing.app_server_script import CloseOutput as CloseOutput
    from codex_acp.testing.app_server_script import Entry as Entry
    from codex_acp.testing.app_server_script import Exit as Exit
    from codex_acp.testing.app_server_script import Expect as Expect
    from codex_acp.testing.app_server_script import ExpectNotification as ExpectNotification
    from codex_acp.testing.app_server_script import Notify as Notify
    from codex_acp.testing.app_server_script import Output as Output
    from codex_acp.testing.app_server_script import Pause as Pause
    from codex_acp.testing.app_server_script import RawLine as RawLine
    from codex_acp.testing.app_server_script import Send as Send
    from codex_acp.testing.app_server_script import Silence as Silence
    from codex_acp.testing.app_server_script import StderrText as StderrText
    from codex_acp.testing.app_server_script import agent_message as agent_message
    from codex_acp.testing.app_server_script import command_approval as command_approval
    from codex_acp.testing.app_server_script import file_change_approval as file_change_approval
    from codex_acp.testing.app_server_script import request_resolved as request_resolved
    from codex_acp.testing.app_server_script import turn_completed as turn_completed
    from codex_acp.testing.app_server_script import turn_started as turn_started
    from codex_acp.testing.codex_home import CodexHome as CodexHome
    from codex_acp.testing.mcp_server import McpScript as McpScript
    from codex_acp.testing.mcp_server import McpTool as McpTool
    from codex_acp.testing.mcp_server import ScriptedMcpServer as ScriptedMcpServer
    from codex_acp.testing.mcp_server import form_elicitation as form_elicitation
    from codex_acp.testing.mcp_server import url_elicitation as url_elicitation
    from codex_acp.testing.model_script import CustomToolCall as CustomToolCall
    from codex_acp.testing.model_script import Delay as Delay
    from codex_acp.testing.model_script import Disconnect as Disconnect
    from codex_acp.testing.model_script import Fail as Fail
    from codex_acp.testing.model_script import Failed as Failed
    from codex_acp.testing.model_script import Gate as Gate
    from codex_acp.testing.model_script import Incomplete as Incomplete
    from codex_acp.testing.model_script import ModelRequest as ModelRequest
    from codex_acp.testing.model_script import ModelResponse as ModelResponse
    from codex_acp.testing.model_script import ModelScript as ModelScript
    from codex_acp.testing.model_script import Reasoning as Reasoning
    from codex_acp.testing.model_script import Step as Step
    from codex_acp.testing.model_script import Text as Text
    from codex_acp.testing.model_script import ToolCall as ToolCall
    from codex_acp.testing.model_script import Usage as Usage
    from codex_acp.testing.model_script import When as When
    from codex_acp.testing.model_script import add_file as add_file
    from codex_acp.testing.model_script import apply_patch as apply_patch
    from codex_acp.testing.model_script import exec_command as exec_command
    from codex_acp.testing.model_script import mcp_call as mcp_call
    from codex_acp.testing.model_script import request_permissions as request_permissions
    from codex_acp.testing.model_script import request_user_input as request_user_input
    from codex_acp.testing.model_script import update_plan as update_plan
    from codex_acp.testing.model_script import view_image as view_image
    from codex_acp.testing.model_script import words as words
    from codex_acp.testing.model_script import write_stdin as write_stdin
    from codex_acp.testing.scripted_model import ScriptedModel as ScriptedModel
    from codex_acp.testing.scripted_peers import AgentStep as AgentStep
    from codex_acp.testing.scripted_peers import AskPermission as AskPermission
    from codex_acp.testing.scripted_peers import ClientTurn as ClientTurn
    from codex_acp.testing.scripted_peers import ScriptedAgent as ScriptedAgent
    from codex_acp.testing.scripted_peers import ScriptedClient as ScriptedClient
    from codex_acp.testing.scripted_peers import UntilCancelled as UntilCancelled
else:
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
