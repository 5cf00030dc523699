"""Jobs: spec, configuration, status, scheduling, authorization."""
