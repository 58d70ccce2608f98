"""gunicorn's worker for web processes: no slow or silent client holds a thread."""
