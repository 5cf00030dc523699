"""Signatures: one sourced row for each line that training programs print."""
