"""A model that answers with a test's script: it streams, thinks, calls tools, stalls and fails as ``Turn`` states."""
