"""What a site does about hosts that fail: who is quarantined, when a run stops, who is a lemon."""

from .ready import required_ready

__all__ = ["required_ready"]
