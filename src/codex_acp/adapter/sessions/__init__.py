"""The sessions of one agent: opened, loaded, replayed, prompted and closed."""
