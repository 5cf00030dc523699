"""Dashboards, recording rules and alerts, built from code; ``make generated`` writes them."""
