"""How a client is talked to: one module for each version of ACP."""
