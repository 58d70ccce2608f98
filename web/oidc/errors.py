"""Errors of a sign-in."""

from __future__ import annotations

from config.errors import Permanent, Retryable

SIGN_IN_OFF = Permanent.row(
    "sign_in_off",
    "No identity provider is configured.",
    status=404,
    text="this deployment has no sign-in; set CALLBOARD_OIDC_ISSUER (docs/sign-in.md), or use an API key.",
    remedy="Configure the [sign-in](sign-in.md), or use an API key.",
)

SIGN_IN_REFUSED = Permanent.row(
    "sign_in_refused",
    "The sign-in is over, was begun elsewhere, or the provider or a setting refuses the person.",
    status=403,
    remedy="The sentence says which; [sign in](sign-in.md) again.",
)

PROVIDER_UNREACHABLE = Retryable.row(
    "provider_unreachable",
    "The identity provider does not answer, or not as OpenID Connect says.",
    remedy="[When it does not work](sign-in.md#when-it-does-not-work) lists the causes.",
)
