"""Text and token ids: datasets, tokenizers, batches, corpora on disk."""
