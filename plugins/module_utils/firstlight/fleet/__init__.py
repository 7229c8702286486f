"""Fleet runs in the background: playbooks driven by ansible-runner, one for each shard of hosts."""
