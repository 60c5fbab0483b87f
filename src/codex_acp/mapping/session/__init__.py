"""Map a session's set-up, list, state and ends of turns."""
