"""Classifies server requests, and answers an approval without a person."""
