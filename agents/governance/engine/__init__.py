"""The remote governance engine: it is asked over HTTP about each call, beside the policy of this deployment."""
