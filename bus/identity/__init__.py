"""What the database knows of identities: their stored credentials, and whether these still hold."""
