"""What a shell completes, without the commands' modules: importing one takes a second, and a person waits.

``commands.json`` has the commands' words and the statements that find ids; ``python -m cli.dev.completion`` writes it.
"""
