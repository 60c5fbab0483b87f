"""What a session is besides its turns: its list, its set-up, its state, how a turn ended."""
