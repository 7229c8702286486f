"""Firstlight's library: what judges, asks and remembers. See docs/architecture.md for its layers."""
