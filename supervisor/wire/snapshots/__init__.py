"""What both sides know of a snapshot: manifest, hashes, what came of a proof."""
