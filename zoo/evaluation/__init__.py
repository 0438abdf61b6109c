"""Score translations: sacreBLEU's metrics, our own, and those of plugins."""
