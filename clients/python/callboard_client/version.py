"""The version of this distribution, which the User-Agent header names."""

VERSION = "0.1.0"
