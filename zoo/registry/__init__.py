"""Names and what they stand for: plugins, hooks, catalogues, configurations, recipes. No torch."""
