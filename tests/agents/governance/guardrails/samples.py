"""Secrets and personal data of every form that is recognised."""

from config.redaction import Redactor

REGISTERED = ("swordfish-of-the-sea", "ünïcode-geheim-42", "a/b+c d&e=f12345")
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nq2w3e4r5t6\n-----END RSA PRIVATE KEY-----"
TEXT = "aB3" * 11
KEYS = (
    "sk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34Op56",
    "sk-ant-api03-Ab12Cd34Ef56Gh78Ij90_Kl12-Mn34",
    "sk_live_" + TEXT,
    "rk-" + TEXT,
    "pk_" + TEXT,
    "cbk_0123456789abcdef0",
    "cbk%255F0123456789abcdef0",
    "%63bk_0123456789abcdef0",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIA" + "A1" * 8,
    "ghp_" + "a1B2" * 9,
    "gho_" + TEXT,
    "github_pat_" + TEXT,
    "glpat-" + TEXT,
    "xoxb-" + TEXT,
    "AIza" + TEXT,
    "hf_" + TEXT,
    "gsk_" + TEXT,
    "xai-" + TEXT,
    "npm_" + TEXT,
    "pypi-" + TEXT,
    "123456789:AA" + TEXT,
    "c2stcHJvai1BYjEyQ2QzNEVmNTZHaDc4SWo5MA==",
    JWT,
    PEM,
)
NAMED = {
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "Authorization: Bearer t0k3nt0k3nt0k3n": "t0k3nt0k3nt0k3n",
    "authorization: basic dXNlcjpwYXNzd29yZA==": "dXNlcjpwYXNzd29yZA==",
    "x-api-key: 0123456789abcdef": "0123456789abcdef",
    "redis://:hunter2@host:6379/0": "hunter2",
    "postgresql+psycopg://me:s3cr%40t@db/callboard": "s3cr%40t",
    '{"password": "c0rrect-horse"}': "c0rrect-horse",
    "client_secret='q1w2e3r4t5'": "q1w2e3r4t5",
    "GET /v1/runs?jwt=abcdef012345&a=b": "abcdef012345",
    "?Authorization=Bearer%20abcdef012345": "abcdef012345",
    "https://h/a?b=c&token=abcdef012345": "abcdef012345",
    "https://h/a?key=abcdef0123456789": "abcdef0123456789",
}
"""What a word calls a secret -> the secret."""
PERSONAL = {
    "email": ("jane.doe+news@mail.example.co.uk", "J_D@example.org"),
    "iban": ("DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "fr14-2004-1010-0505-0001-3m02-606"),
    "card": ("4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005", "2223003122003222"),
    "phone": ("+49 (170) 123-45.67", "0049 170 1234567", "(212) 555-0123", "212-555-0123"),
}


def redactor() -> Redactor:
    """Return a redactor that knows the registered samples, and nothing of this process."""
    return Redactor({}, REGISTERED)
