"""What an HTTP call takes and answers, declared once: requests are validated by it, and /openapi.json is made of it."""
