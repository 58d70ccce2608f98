"""Sign-in by OpenID Connect: authorization code with PKCE."""
