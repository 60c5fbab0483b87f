"""Items that are tool calls: what they show when they start, while they run, and at their end."""
