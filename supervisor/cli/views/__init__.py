"""How a run is shown: on a terminal, as lines, as JSON."""
