"""What the suite starts as the client under test: passes its scenario on to the test's process, and ends as that says.

``python -I -S relay.py PORT URL``. A process of its own for each scenario would import Callboard sixty times.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main() -> int:
    """Return the status that the test's process answers."""
    port, url = sys.argv[1:]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    scenario = {"scenario": os.environ["MCP_CONFORMANCE_SCENARIO"], "url": url, "context": context}
    with socket.create_connection(("127.0.0.1", int(port))) as connection, connection.makefile("rw") as stream:
        stream.write(json.dumps(scenario) + "\n")
        stream.flush()
        answer = json.loads(stream.readline())
    print(answer["said"])
    return int(answer["status"])


if __name__ == "__main__":
    sys.exit(main())
