"""What viewers follow: the hot log in Redis, which may lose everything at any moment, merged with SQL by one reader."""
