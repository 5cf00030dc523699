"""Hooks into the import of a framework, and into optimizer steps outside of ``fit``."""
