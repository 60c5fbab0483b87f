"""The agent for clients on other connections than standard input and output: who may come in, who
hears of which session, and what becomes of a session whose connection breaks."""
