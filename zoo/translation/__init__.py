"""Translation: text in, text out; word alignments, attention weights and their pictures."""
