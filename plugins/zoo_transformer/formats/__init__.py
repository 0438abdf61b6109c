"""Foreign formats of the Transformer: importers and exporters."""
