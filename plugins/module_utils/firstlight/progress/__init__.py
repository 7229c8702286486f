"""What a run shows of itself: 500 hosts on one screen, or a line a task."""
