"""Addresses of the operator's own: private ones are asked, a cloud's metadata service is not."""

import asyncio
import socket

import pytest

from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.operators import require_operators_url, require_operators_url_here
from config.egress.policy import allowed_in

NAMES = {
    "gpu.example": ["10.0.0.7"],
    "models.local": ["fe80::1%eth0", "192.168.1.9"],
    "metadata.google.internal": ["169.254.169.254"],
    "mixed.example": ["93.184.216.34", "169.254.169.254"],
    "mapped.example": ["::ffff:169.254.169.254"],
    "six.example": ["fd00:ec2::254"],
    "zone.example": ["fe80::a9fe:a9fe%eth0"],
}


async def resolver(host: str, port: int) -> list[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


def ask(url: str, allowed: str = "", here: bool = False) -> None:
    entries = allowed_in(allowed) if allowed else ()
    if here:
        require_operators_url_here(url, entries)
    else:
        asyncio.run(require_operators_url(url, entries, resolver))


@pytest.fixture
def names(monkeypatch):
    def lookup(host, port, *_, **__):
        if host not in NAMES:
            raise socket.gaierror(-2, "no such name")
        return [(0, 0, 0, "", (text, port)) for text in NAMES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


SERVED = """
http://127.0.0.1:11434/v1 http://0.0.0.0:8000/v1 http://10.0.0.7:8000/v1 http://192.168.1.9/v1 http://[::1]:8000/
http://[fd00::7]:8000/ http://[fe80::1]:8000/ http://gpu.example:8000/v1 http://models.local/ https://away.example/v1
https://api.example.org/v1?a=b http://localhost.localdomain:9/
""".split()
METADATA = """
http://169.254.169.254/latest/meta-data/ http://169.254.170.2/v2/credentials http://100.100.100.200/
http://168.63.129.16/ http://[fd00:ec2::254]/ http://[fd20:ce::254]/ http://[::ffff:169.254.169.254]/
http://[::ffff:a9fe:a9fe]/ http://[64:ff9b::a9fe:a9fe]/ http://[fe80::a9fe:a9fe]/ http://metadata.google.internal/
https://mixed.example/v1 http://mapped.example/ http://six.example:8000/ http://zone.example/
""".split()
MISREAD = """
http://2852039166/ http://0xa9fea9fe/ http://0251.0376.0251.0376/ http://169.254.169.254./ http://169.254.43518/
http://a@169.254.169.254/ http://169.254.169.254\\@example.org/ file:///etc/passwd ftp://169.254.169.254/
http://①⑥⑨.②⑤④.①⑥⑨.②⑤④/ http://[fe80::a9fe:a9fe%25eth0]/
""".split()


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("url", SERVED)
def test_a_private_server_may_be_asked(names, url, here):
    ask(url, here=here)


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("url", METADATA)
def test_a_metadata_service_may_not_be_asked(names, url, here):
    with pytest.raises(HostNotAllowed, match="metadata service"):
        ask(url, here=here)


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("url", MISREAD)
def test_no_other_spelling_leads_there(names, url, here):
    with pytest.raises((UrlRefused, HostNotAllowed)):
        ask(url, here=here)


@pytest.mark.parametrize(
    ("allowed", "url", "is_fine"),
    [
        ("169.254.169.254", "http://169.254.169.254/", True),
        ("169.254.169.254", "http://metadata.google.internal/", True),
        ("169.254.169.254:80", "http://169.254.169.254/", True),
        ("169.254.169.254:81", "http://169.254.169.254/", False),
        ("*", "http://169.254.169.254/", False),
        ("169.254.0.0/16, 0.0.0.0/0", "http://169.254.169.254/", False),
        ("metadata.google.internal", "http://metadata.google.internal/", False),
    ],
)
def test_the_operator_may_list_it_by_its_number(allowed, url, is_fine):
    if is_fine:
        ask(url, allowed)
    else:
        with pytest.raises(HostNotAllowed):
            ask(url, allowed)


def test_a_lookup_that_does_not_end_is_left_to_the_client(monkeypatch):
    async def hangs(host: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    monkeypatch.setattr("config.egress.operators.LOOKUP_S", 0.01)

    asyncio.run(require_operators_url("https://slow.example/", (), hangs))
