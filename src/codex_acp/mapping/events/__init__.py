"""Events that a session sends its client, in no version of ACP."""
