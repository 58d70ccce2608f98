"""Addresses that a model may be talked into asking: none is asked, and none takes long to refuse."""

import asyncio
import time

import pytest

from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.fetch import Fetcher
from config.egress.policy import EgressPolicy, allowed_in
from config.egress.request import Outgoing
from config.egress.target import parse_target
from config.errors import ModelVisible

NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "redis": ["172.18.0.2"],
    "metadata.google.internal": ["169.254.169.254"],
    "127.0.0.1.nip.io": ["127.0.0.1"],
    "mixed.example": ["93.184.216.34", "10.0.0.7"],
    "zone.example": ["fe80::1%eth0"],
    "mapped.example": ["::ffff:10.0.0.7"],
    "none.example": [],
    "many.example": [f"93.184.216.{number}" for number in range(40)],
}
"""What the name server of these tests answers; every other name is public."""
OTHER_SCHEMES = """
file:///etc/passwd file://localhost/etc/passwd ftp://example.org/ gopher://127.0.0.1:6379/_INFO dict://127.0.0.1:11211/
ldap://example.org/ javascript:alert(1) data:text/html,x ws://example.org/ unix:///run/docker.sock jar:http://a!/b
//example.org/ /etc/passwd example.org http:example.org http:/example.org http:///example.org http://
""".split()
TRICKS = [
    "http://good@127.0.0.1/",
    "http://good:word@127.0.0.1/",
    "http://example.org@169.254.169.254/",
    "http://127.0.0.1#@example.org/",
    "http://127.0.0.1\\@example.org/",
    "http://example.org\\@127.0.0.1/",
    "http://example.org:80@127.0.0.1/",
    "http://@127.0.0.1/",
    "http://example.org /",
    " http://example.org/",
    "http://example.org/\r\nX-Injected: 1",
    "http://example.org/a\nb",
    "http://example.org/\t",
    "http://exam\0ple.org/",
    "http://example.org/\x7f",
    "http://example.org/\ud800",
    "http://example.org/\u2028",
    "http://%31%32%37.0.0.1/",
    "http://example%2eorg/",
    "http://example.org:0/",
    "http://example.org:65536/",
    "http://example.org:80:80/",
    "http://example.org:/",
    "http://example.org:+80/",
    "http://example.org:８０/",
    "http://example..org/",
    "http://.example.org/",
    "http://-example.org/",
    "http://" + "a" * 64 + ".org/",
    "http://" + "a." * 200 + "org/",
    "http://" + "a" * 5000,
    "http://" + "ä" * 4000 + "/",
    "http://example.org/" + "ä" * 4000,
    "http://a[::1]/",
    "http://[::1/",
    "http://[::1]x/",
]
NUMBERS = """
http://127.0.0.1/ http://127.1/ http://127.0.1/ http://0/ http://0.0.0.0/ http://2130706433/ http://0x7f000001/
http://0x7f.1/ http://0177.0.0.1/ http://017700000001/ http://127.0.0.01/ http://127.0.0.1./ http://localhost./
http://1.2.3.4.5/ http://256.0.0.1/ http://0x/ http://①②⑦.⓪.⓪.①/ http://127。0。0。1/ http://１２７.0.0.1/
http://10.0.0.1/ http://172.16.0.1/ http://172.31.255.255/ http://192.168.1.1/ http://169.254.169.254/latest/meta-data/
http://100.64.0.1/ http://100.100.100.200/ http://168.63.129.16/ http://192.0.0.192/ http://192.0.2.1/
http://192.88.99.1/ http://198.18.0.1/ http://198.51.100.1/ http://203.0.113.1/ http://224.0.0.1/ http://240.0.0.1/
http://255.255.255.255/ http://127.255.255.254/ http://0.1.2.3/
http://[::1]/ http://[::]/ http://[::ffff:127.0.0.1]/ http://[::ffff:a9fe:a9fe]/ http://[::127.0.0.1]/
http://[64:ff9b::a9fe:a9fe]/ http://[64:ff9b::7f00:1]/ http://[64:ff9b:1::1]/ http://[2002:7f00:1::]/
http://[2002:a9fe:a9fe::1]/ http://[2001:0:7f00:1::]/ http://[2001:db8::1]/ http://[3fff::1]/ http://[fd00:ec2::254]/
http://[fc00::1]/ http://[fe80::1]/ http://[fe80::1%25eth0]/ http://[fe80::1%eth0]/ http://[fec0::1]/ http://[ff02::1]/
http://[5f00::1]/ http://[100::1]/ http://[::ffff:0:127.0.0.1]/ http://[1::2::3]/ http://[::1]:6379/
""".split()
PORTS = """
http://example.org:22/ http://example.org:25/ http://example.org:6379/ http://example.org:5432/ http://example.org:1/
https://example.org:11211/ http://93.184.216.34:23/
""".split()
HOSTILE = [
    *OTHER_SCHEMES,
    *TRICKS,
    *NUMBERS,
    *PORTS,
    *(f"http://{name}/" for name in NAMES),
    "http://localhost:8000/v1",
]


async def resolver(host: str, port: int) -> list[str]:
    return NAMES.get(host, ["93.184.216.34"])


class Connected(Exception):
    """A request would have been sent."""


@pytest.fixture
def send(monkeypatch):
    def connect(*_: object) -> None:
        raise Connected

    monkeypatch.setattr("config.egress.exchange.Exchange.first_of", connect)

    def ask(url: str, allowed: str = "") -> None:
        fetcher = Fetcher(policy=EgressPolicy(allowed=allowed_in(allowed)), resolver=resolver)
        asyncio.run(fetcher.fetch(Outgoing(method="GET", target=parse_target(url))))

    with pytest.raises(Connected):
        ask("https://example.org/")  # what is loaded once does not count as time of a refusal
    return ask


def test_there_are_enough_of_them():
    assert len(set(HOSTILE)) == len(HOSTILE) >= 120


@pytest.mark.parametrize("url", HOSTILE, ids=lambda url: ascii(url)[:60])
def test_a_hostile_address_is_refused_at_once(send, url):
    began = time.thread_time()

    with pytest.raises((UrlRefused, HostNotAllowed)) as caught:
        send(url)

    assert time.thread_time() - began < 0.1
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", [name for name, addresses in NAMES.items() if addresses])
def test_a_refusal_tells_no_address_behind_a_name(send, name):
    with pytest.raises(ModelVisible) as caught:
        send(f"http://{name}/")

    message = str(caught.value).replace(name, "")
    assert not any(address in message for address in NAMES[name])


@pytest.mark.parametrize(
    "url",
    """
    https://example.org http://EXAMPLE.org:80/a%20b?c=d#e https://example.org:8443/ https://straße.de/ü?q=ä
    https://93.184.216.34/ https://[2606:2800:220:1:248:1893:25c8:1946]/ http://[64:ff9b::5db8:d822]/ http://a_b.example/
    http://[::ffff:93.184.216.34]/ https://xn--bcher-kva.example/ http://example.org/?u=http://a@b/
    """.split(),
)
def test_a_public_address_is_asked(send, url):
    with pytest.raises(Connected):
        send(url)
