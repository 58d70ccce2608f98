"""Imported by a real worker (`celery worker -I tests.soak.wrapping`), it has the tools' calls written to the ledger."""

from agents.catalogue import wrap_tools
from cli.crashlab.ledger import watched

wrap_tools(watched)
