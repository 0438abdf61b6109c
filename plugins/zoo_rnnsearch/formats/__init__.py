"""Foreign formats of this architecture."""
