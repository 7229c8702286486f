"""Tickets: findings of one host turned into a repair order. Each part of it is pure but for ``deliver`` and outputs."""
