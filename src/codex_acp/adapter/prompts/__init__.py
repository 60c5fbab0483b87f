"""The steps of a prompt: the early first turn, calls about turns, steering, a plan's question."""
