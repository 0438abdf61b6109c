"""The checkpoint folder on disk: its format, weights, cards and scores."""
