"""Foreign formats of T5."""
