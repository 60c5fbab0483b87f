"""PURE: what an agent says in version 1 of ACP, as version 2.

For `run_agent`, whose agents are written once. No IO and no tasks.
"""
