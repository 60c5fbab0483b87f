"""The sessions of one connection: opened, loaded, given their history, closed."""
