"""The Prometheus exporter: collectors, exposition, server."""
