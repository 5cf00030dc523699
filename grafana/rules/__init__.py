"""Recording rules and alerts for Prometheus, with what promtool tests of them."""
