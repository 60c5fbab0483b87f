"""PURE: the contract. What each server request of Codex is, and what may answer it."""
