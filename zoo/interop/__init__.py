"""Foreign formats: importers read another project's checkpoint, exporters write one.

What plugin authors need is exported here; the importers and exporters themselves live with the
architecture whose weights they know.
"""

from zoo.interop.exporter import Exporter as Exporter
from zoo.interop.importer import Imported as Imported
from zoo.interop.importer import Importer as Importer
from zoo.interop.reasons import Reasons as Reasons
from zoo.interop.source import Source as Source

__all__ = ["Exporter", "Imported", "Importer", "Reasons", "Source"]
