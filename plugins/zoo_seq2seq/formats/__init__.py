"""Foreign formats of the basic sequence-to-sequence network."""
