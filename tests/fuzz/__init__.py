"""Requests of all kinds against a real Callboard, generated from its OpenAPI document by schemathesis."""
