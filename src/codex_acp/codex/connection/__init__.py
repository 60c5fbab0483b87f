"""The connection to one app-server: launch, handshake, calls, notifications, server requests."""
