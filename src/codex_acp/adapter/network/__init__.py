"""Serve the agent over the network: who may connect, which connection shows which session, and how
long a session is kept without a connection."""
