"""Prompts to inputs of a turn, content blocks both ways, slash commands and their texts."""
