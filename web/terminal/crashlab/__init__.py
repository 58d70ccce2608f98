"""The crash lab: works a run off again and again, kills its process at every place there is, and looks what came of it.

The agent, its tools and the journal are the real ones; the kill is a real SIGKILL. docs/crash-lab.md is its page.
"""
