"""Output of ``run``, ``chat`` and ``demo`` on a terminal, and their questions there."""
