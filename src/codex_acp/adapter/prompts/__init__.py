"""The prompts of one session, in their order, and the turns that they become."""
