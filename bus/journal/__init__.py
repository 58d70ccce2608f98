"""The journal: what was accepted, who owns it, what it did, and the numbered log everybody reads.

SQL is the truth. Redis holds the hot tail of the log and hints; all of it can be lost at any moment.
"""
