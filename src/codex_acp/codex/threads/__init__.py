"""Threads, turns and tools as objects for programs."""
