"""Images -> features: readers, backbones, extraction."""
