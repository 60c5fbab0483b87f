"""Override names, enums and results of the Codex app-server protocol."""

_ELICITATION = "McpServerElicitationRequestParams"
_DECISION = "CommandExecutionApprovalDecision"
_IMPORT = "ExternalAgentConfigImportHistoryRecord"

NAMES: dict[str, str] = {
    f"{_ELICITATION}.form": "McpFormElicitationParams",
    f"{_ELICITATION}.url": "McpUrlElicitationParams",
    f"{_ELICITATION}.openai/form": "McpOpenaiFormElicitationParams",
    f"{_ELICITATION}.openaiForm": "McpOpenaiFormLegacyElicitationParams",
    f"{_ELICITATION}.openai/userVerification": "McpUserVerificationElicitationParams",
    f"{_DECISION}.acceptWithExecpolicyAmendment": "AcceptWithExecpolicyAmendmentDecision",
    f"{_DECISION}.applyNetworkPolicyAmendment": "ApplyNetworkPolicyAmendmentDecision",
    f"{_IMPORT}TypeResultParams": "ImportHistoryRecordTypeResultParams",
    f"{_IMPORT}SuccessParams": "ImportHistoryRecordSuccessParams",
    "ThreadRealtimeBemItemPresentation.wholeItem": "WholeItemBemPresentation",
    "ThreadRealtimeBemItemPresentation.inlineMarkdown": "InlineMarkdownBemPresentation",
    "ThreadRealtimeBemItemPresentation.inlineVisualization": "InlineVisualizationBemPresentation",
    # Two types under one tag since 0.169, by url or by file; the first keeps its name.
    "ContentItem.input_audio.AudioUrl": "InputAudioContentItem",
    "FunctionCallOutputContentItem.input_audio.AudioUrl": "InputAudioFunctionCallOutputContentItem",
    "ThreadItem.imageGeneration.Result": "ImageGenerationThreadItem",
    "UserInput.audio.Url": "AudioUserInput",
}
"""Schema path → class name, where the derived name collides, is too long, or was another before."""

CLOSED_ENUMS = frozenset(
    {
        "McpElicitationArrayType",
        "McpElicitationBooleanType",
        "McpElicitationNumberType",
        "McpElicitationObjectType",
        "McpElicitationStringType",
    }
)
"""Enums that tell the members of a union apart, and so have no room for unknown values."""

RESULTS: dict[str, str] = {
    "account/gatewayOAuth/cancel": "GatewayOAuthCancelResponse",
    "account/gatewayOAuth/login": "GatewayOAuthLoginResponse",
    "account/gatewayOAuth/read": "GatewayOAuthReadResponse",
    "account/securitySetup/read": "GetAccountSecuritySetupResponse",
    "accountSession/list": "AccountSessionsResponse",
    "account/logout": "LogoutAccountResponse",
    "account/rateLimits/read": "GetAccountRateLimitsResponse",
    "account/usage/read": "GetAccountTokenUsageResponse",
    "account/workspaceMessages/read": "GetWorkspaceMessagesResponse",
    "config/batchWrite": "ConfigWriteResponse",
    "config/mcpServer/reload": "McpServerRefreshResponse",
    "config/value/write": "ConfigWriteResponse",
    "configRequirements/read": "ConfigRequirementsReadResponse",
    "externalAgentConfig/import/readHistories": "ExternalAgentConfigImportHistoriesReadResponse",
    "memory/reset": "MemoryResetResponse",
    "modelProvider/default/set": "ConfigWriteResponse",
    "remoteControl/disable": "RemoteControlDisableResponse",
    "remoteControl/enable": "RemoteControlEnableResponse",
    "remoteControl/status/read": "RemoteControlStatusReadResponse",
    "rollout/compress": "RolloutCompressResponse",
    "windowsSandbox/readiness": "WindowsSandboxReadinessResponse",
}
"""Request method → its response type, where the name of the params does not tell."""
