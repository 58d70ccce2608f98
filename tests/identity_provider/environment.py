"""The environment of the tests' OpenID Connect provider.

``python -m tests.identity_provider.environment`` makes it beforehand.
"""

from __future__ import annotations

from pathlib import Path

from tests.locked_environment import LockedEnvironment

PROVIDER = LockedEnvironment("identity-provider", Path(__file__).parent / "requirements.lock")
ready = PROVIDER.ready


if __name__ == "__main__":
    print(ready())
