"""Errors of a sign-in."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class SignInOff(Permanent):
    """No provider is configured."""

    code = "sign_in_off"
    status = 404
    text = "this deployment has no sign-in; set CALLBOARD_OIDC_ISSUER (docs/sign-in.md), or use an API key."


class SignInRefused(Permanent):
    """The sign-in did not end as it began, or the provider refused it."""

    code = "sign_in_refused"
    status = 403


class ProviderUnreachable(Retryable):
    """The identity provider does not answer, or not as the standard says."""

    code = "provider_unreachable"
