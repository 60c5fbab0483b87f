"""PURE: decide what each server request of Codex becomes, and which replies it may get."""
