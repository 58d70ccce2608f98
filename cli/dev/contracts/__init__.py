"""The contracts with other programs: what messages, events, tools, capabilities and errors look like, as JSON Schema.

The schemas are made of the declarations that the code uses. ``python -m cli.dev.contracts`` writes them to
docs/contracts; a test compares them, and refuses a change that programs written for the last release do not survive.
"""
