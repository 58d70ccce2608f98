"""Errors of the policy."""

from __future__ import annotations

from config.errors import Permanent, Topic


class PolicyInvalid(Permanent):
    """The policy's file cannot be used."""

    code = "policy_invalid"
    status = 503
    retryable = True
    topic = Topic.CONFIGURATION
    public_text = "the policy of this server cannot be used; its log names the file, the line and the rule."
    remedy = (
        "`./callboard policy check` names file, line and rule ([the policy](policy.md)). "
        "Workers that have read an earlier, valid policy continue with that one."
    )

    def __init__(self, file: str, line: int | None, rule: str | None, problem: str) -> None:
        file = file.encode("utf-8", "backslashreplace").decode()  # a file's name may be no text
        where = file if line is None else f"{file}:{line}"
        what = f" rule '{rule}':" if rule else ""
        super().__init__(f"{where}:{what} {problem}", file=file, line=line, rule=rule)
