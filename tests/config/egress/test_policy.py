"""What the operator's list of hosts allows."""

import pytest

from config.egress.addresses import address_in, is_public
from config.egress.errors import HostNotAllowed
from config.egress.policy import EgressPolicy, allowed_in, hosts_in
from config.egress.target import parse_target
from config.errors import SettingInvalid
from config.settings import read_settings


def is_allowed(allowed: str, url: str, *addresses: str) -> bool:
    policy, target = EgressPolicy(allowed=allowed_in(allowed)), parse_target(url)
    try:
        policy.require_target(target)
        if addresses:
            policy.require_addresses(target, [address for text in addresses if (address := address_in(text))])
    except HostNotAllowed:
        return False
    return True


@pytest.mark.parametrize(
    ("allowed", "url", "is_fine"),
    [
        ("example.org", "https://example.org/", True),
        ("EXAMPLE.org", "https://example.ORG/", True),
        ("example.org", "https://www.example.org/", False),
        ("example.org", "https://example.org.evil.example/", False),
        ("example.org", "https://evilexample.org/", False),
        ("*.example.org", "https://www.example.org/", True),
        ("*.example.org", "https://a.b.example.org/", True),
        ("*.example.org", "https://example.org/", False),
        ("*.example.org", "https://evilexample.org/", False),
        ("example.org, *.example.org", "https://example.org/", True),
        ("straße.de", "https://xn--strae-oqa.de/", True),
        ("example.org", "https://93.184.216.34/", False),
        ("93.184.216.0/24", "https://93.184.216.34/", True),
        ("93.184.216.0/24", "https://example.org/", False),
        ("*", "https://93.184.216.34/", True),
        ("example.org", "https://example.org:8443/", True),
        ("example.org", "https://example.org:22/", False),
        ("example.org:22", "https://example.org:22/", True),
        ("example.org:8443", "https://example.org/", False),
        ("example.org:8443, example.org", "https://example.org/", True),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://[::ffff:10.1.2.3]/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.0.0.7:6379", "http://10.0.0.7:6379/", True),
        ("10.0.0.7:6379", "http://10.0.0.7/", False),
        ("fd00::/8", "http://[fd00::7]/", True),
        ("[fd00::7]:8443", "http://[fd00::7]:8443/", True),
        ("0.0.0.0/0", "http://127.0.0.1/", True),
        ("0.0.0.0/0", "http://169.254.169.254/", False),
        ("169.254.169.254", "http://169.254.169.254/", True),
        ("::/0", "http://[fd00:ec2::254]/", False),
    ],
)
def test_an_entry_allows_what_it_names(allowed, url, is_fine):
    assert is_allowed(allowed, url) is is_fine


@pytest.mark.parametrize(
    ("allowed", "addresses", "is_fine"),
    [
        ("wiki.intern", ["93.184.216.34"], True),
        ("wiki.intern", ["10.1.2.3"], False),
        ("wiki.intern, 10.0.0.0/8", ["10.1.2.3"], True),
        ("wiki.intern, 10.0.0.0/8", ["10.1.2.3", "127.0.0.1"], False),
        ("*, 10.0.0.0/8", ["10.1.2.3"], True),
        ("*, 10.0.0.7:8443", ["10.0.0.7"], False),
        ("*, 0.0.0.0/0", ["169.254.169.254"], False),
    ],
)
def test_a_listed_name_reaches_a_private_address_only_in_a_listed_network(allowed, addresses, is_fine):
    assert is_allowed(allowed, "http://wiki.intern/", *addresses) is is_fine


@pytest.mark.parametrize(
    "allowed", "a..b 10.0.0.1/8 10.0.0.300 http://a/ a@b *.*.a a*b example.org:0 example.org:70000 [::1 ::/200".split()
)
def test_an_entry_that_is_no_host_is_refused_by_the_settings(allowed):
    with pytest.raises(SettingInvalid, match="CALLBOARD_HTTP_ALLOWED_HOSTS"):
        read_settings(http_allowed_hosts=allowed)


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are_public(text):
    address = address_in(text)

    assert address is not None
    assert is_public(address)


@pytest.mark.parametrize(
    ("deployment", "narrower", "url", "is_fine"),
    [
        ("", ["example.org"], "https://example.org/", True),
        ("", ["example.org"], "https://other.example/", False),
        ("", [""], "https://example.org/", False),
        ("example.org", ["*"], "https://example.org/", True),
        ("example.org", ["*"], "https://other.example/", False),
        ("*, 10.0.0.0/8", ["wiki.intern"], "http://wiki.intern/", True),
        ("*, 10.0.0.0/8", ["10.0.0.7"], "http://10.0.0.7/", True),
        ("*", ["10.0.0.7"], "http://10.0.0.7/", False),
        ("example.org", ["example.org:8443"], "https://example.org/", False),
        ("*.example.org", ["a.example.org, b.example.org", "b.example.org"], "https://b.example.org/", True),
        ("*.example.org", ["a.example.org, b.example.org", "b.example.org"], "https://a.example.org/", False),
    ],
)
def test_a_narrower_list_takes_away_and_adds_nothing(deployment, narrower, url, is_fine):
    lists = tuple(hosts_in(text.split(",") if text else []) for text in narrower)
    policy = EgressPolicy(allowed=allowed_in(deployment), within=lists)
    try:
        policy.require_target(parse_target(url))
    except HostNotAllowed:
        assert not is_fine
    else:
        assert is_fine


@pytest.mark.parametrize("part", ["", " ", "a..b", "http://a/"])
def test_an_empty_entry_is_no_host(part):
    with pytest.raises(ValueError, match="is not a host"):
        hosts_in([part])
