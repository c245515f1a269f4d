"""A small corpus of invented newswire with known label errors: the demo's data, generated without a download."""

from tagtrace.data.invented.planting import (
    SYSTEMATIC_KIND,
    TYPES,
    InventedCorpus,
    PlantedError,
    generate,
    write_invented,
)

__all__ = ["SYSTEMATIC_KIND", "TYPES", "InventedCorpus", "PlantedError", "generate", "write_invented"]
