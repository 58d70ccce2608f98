"""Places are named by what was just committed."""

from cli.crashlab.places import Passed, places_of

MODEL, PAY = "the model call", "`pay`"


def passed(location: str, status: str = "running", **steps: tuple[str, str]) -> Passed:
    return Passed(place=location, status=status, steps=steps)


RUN = [
    passed("accept-before", ""),
    passed("accept", "queued"),
    passed("claim-before", "queued"),
    passed("claim", m=(MODEL, "started")),
    passed("commit-before", m=(MODEL, "started")),
    passed("commit", m=(MODEL, "done"), p=(PAY, "started")),
    passed("tool", m=(MODEL, "done"), p=(PAY, "started")),
    passed("tool-after", m=(MODEL, "done"), p=(PAY, "started")),
    passed("commit-before", m=(MODEL, "done"), p=(PAY, "started")),
    passed("commit", "succeeded", m=(MODEL, "done"), p=(PAY, "done")),
]


def test_every_passing_is_a_place_with_words():
    assert places_of(RUN)[4].points == "commit-before=kill@1"
    assert [(str(location), location.where) for location in places_of(RUN)] == [
        ("accept-before@1", "just before the commit that accepted the run"),
        ("accept@1", "after the commit that accepted the run"),
        ("claim-before@1", "just before the commit that claimed the run and started the model call"),
        ("claim@1", "after the commit that claimed the run and started the model call"),
        ("commit-before@1", "just before the commit that ended the model call and started `pay`"),
        ("commit@1", "after the commit that ended the model call and started `pay`"),
        ("tool@1", "before `pay` was called"),
        ("tool-after@1", "after `pay` was called"),
        ("commit-before@2", "just before the commit that ended `pay` and left the run succeeded"),
        ("commit@2", "after the commit that ended `pay` and left the run succeeded"),
    ]


def test_calls_made_at_once_cannot_be_distinguished():
    (location,) = places_of([passed("tool", a=(PAY, "started"), b=("`send`", "started"))])

    assert location.where == "before one of `pay`, `send` was called"
