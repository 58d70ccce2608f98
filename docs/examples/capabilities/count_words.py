"""Count words: arguments as JSON on standard input, the result as JSON on standard output."""

import json
import sys

arguments = json.load(sys.stdin)
json.dump({"words": len(arguments["text"].split())}, sys.stdout)
