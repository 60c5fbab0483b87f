"""What is told in words: messages, reasoning, plans, reviews, notices."""
