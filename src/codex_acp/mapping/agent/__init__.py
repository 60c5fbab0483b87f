"""Map what is sent before there is a session: capabilities, logins, the first answers."""
