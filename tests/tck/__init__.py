"""What ACP's compatibility kit requires of an agent, by the kit's ids, as code of our own."""
