"""What ``run``, ``chat`` and ``demo`` write to a terminal, and what they ask there."""
