"""The runners of capabilities: each makes the function of a tool, and ends what it started when the call ends.

A plain function alone cannot be ended: it continues until it returns, and is counted
(agents/tools/execution/executor.py). A call's arguments go to the runner as JSON, and its result is JSON. All runners
keep the contract of tests/agents/tools/runners/test_contract.py.
"""
