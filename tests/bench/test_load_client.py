"""What the bench's viewers conclude from bytes."""

from types import SimpleNamespace

from tests.bench.load_client import Arrivals, examine

STAMP = 1_000_000_000_000


def viewer(pieces, is_over=True):
    """Return what a viewer knows that got one piece each microsecond."""
    arrivals = Arrivals(pieces=list(pieces), times_ns=[STAMP + 1000 * n for n in range(1, len(pieces) + 1)])
    return SimpleNamespace(arrivals=arrivals, is_over=is_over, sent_ns=STAMP, accepted_ns=0)


def event(number, kind, content):
    return b'event: %s\ndata: {"content":"%s"}\nid: %d\n\n' % (kind, content, number)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
ONE, TWO = b"%d " % STAMP, b"%d " % (STAMP + 500)


def test_a_token_came_when_its_last_byte_did():
    whole = event(1, b"response", ONE)

    findings = examine(viewer([HEAD, whole[:20], whole[20:]]), "callboard")

    assert findings.latencies_ns == [3000]


def test_numbers_that_never_came_and_came_twice_are_counted():
    events = [event(1, b"status", b""), event(3, b"response", ONE), event(3, b"response", ONE)]

    findings = examine(viewer([HEAD, *events]), "callboard")

    assert (findings.lost, findings.repeated, findings.unordered) == (1, 1, 1)


def test_a_text_that_is_not_what_its_message_says_is_not_whole():
    chunks = [HEAD, event(1, b"response", ONE), event(2, b"response", TWO)]

    right = examine(viewer([*chunks, event(3, b"message", ONE + TWO)]), "callboard")
    error = examine(viewer([*chunks, event(3, b"message", ONE)]), "callboard")

    assert right.is_whole
    assert not error.is_whole


def test_chunked_framing_is_taken_off():
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = b'data: {"content":"%b"}\n\n' % ONE
    frame = b"%x\r\n%b\r\n" % (len(data), data)

    findings = examine(viewer([head, frame[:25], frame[25:], b"0\r\n\r\n"]), "plain")

    assert findings.latencies_ns == [3000]
