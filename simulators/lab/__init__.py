"""Starting, watching and stopping the lab; scripts/lab is its command line."""
