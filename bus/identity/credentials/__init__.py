"""What a caller proves itself with: API keys, sessions, tickets, grants, certificates, the local token."""
