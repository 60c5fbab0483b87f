"""What a session tells its client, whatever version of ACP that speaks."""
