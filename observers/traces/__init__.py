"""OpenTelemetry traces of runs, made of their log and their steps, and sent to a collector over OTLP."""
