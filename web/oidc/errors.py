"""Errors of a sign-in."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class SignInOff(Permanent):
    """No identity provider is configured."""

    code = "sign_in_off"
    status = 404
    remedy = "Configure the [sign-in](sign-in.md), or use an API key."
    text = "this deployment has no sign-in; set CALLBOARD_OIDC_ISSUER (docs/sign-in.md), or use an API key."


class SignInRefused(Permanent):
    """The sign-in is over, was begun elsewhere, or the provider or a setting refuses the person."""

    code = "sign_in_refused"
    status = 403
    remedy = "The sentence says which; [sign in](sign-in.md) again."


class ProviderUnreachable(Retryable):
    """The identity provider does not answer, or not as OpenID Connect says."""

    code = "provider_unreachable"
    remedy = "[When it does not work](sign-in.md#when-it-does-not-work) lists the causes."
