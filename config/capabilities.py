"""What a tool says of itself besides its schema: how its data is classified, and what kind of capability it is."""

from __future__ import annotations

from enum import StrEnum

LABEL = r"[a-z][a-z0-9_.-]{0,63}"
"""The form of a label, by which a tool says what its result is and a policy asks for it."""

UNTRUSTED, SENSITIVE, TRUSTED = "untrusted", "sensitive", "trusted"
"""Labels of results: others may have written them; they must not leave; others have not, although they are read from
another system."""
OUTWARD, INWARD = "outward", "inward"
"""Labels of calls: they leave for another system; they do not, although they have an effect."""


class Classification(StrEnum):
    """How sensitive the data is that a tool reads or changes."""

    PUBLIC = "PUBLIC"
    INTERNAL = "INTERNAL"
    """The default."""
    RESTRICTED = "RESTRICTED"
    """A person has to approve each call."""


class CapabilityKind(StrEnum):
    """What a capability is for."""

    CONNECTOR = "connector"
    """It reads from, or writes to, another system."""
    TRANSFORMER = "transformer"
    """It computes its result from its input."""
    COMMANDER = "commander"
    """It makes another system act."""
