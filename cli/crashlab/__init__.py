"""The crash lab: it repeats a run, kills its process at each failpoint, and checks the outcome (docs/crash-lab.md).

Agent, tools and journal are the real ones, and the kill is a real SIGKILL.
"""
