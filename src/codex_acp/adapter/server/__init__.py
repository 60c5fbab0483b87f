"""The app-server of an adapter: its process, and its messages that belong to no single session."""
