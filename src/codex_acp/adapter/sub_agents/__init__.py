"""The sub-agents of a session: who they are, and how a client is shown what they do."""
