"""What is said before there is a session: capabilities, logins, the first answers."""
