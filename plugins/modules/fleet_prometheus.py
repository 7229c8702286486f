"""Documentation of the action plugin of the same name, which does the work on the controller."""

from __future__ import absolute_import, division, print_function

__metaclass__ = type

DOCUMENTATION = r"""
module: fleet_prometheus
short_description: Write Prometheus' targets from the inventory
description:
  - Runs once, on the controller, for the play's hosts. Writes C(node.json) and C(dcgm.json) for file_sd_configs, with
    the labels host, site, rack, unit, profile and ledger_state.
  - Hosts that have no address yet are left out; C(dcgm) has those whose profile has GPUs.
  - Limited with C(-l), only the hosts of the limit are in the files.
  - Writes C(head_node.json) as well, of the inventory's group C(head_node) whatever the limit says, with the label
    host. Their addresses are C(ansible_host), else the names, and their ports C(node_exporter_port). Without such a
    group it is an empty list, of which Prometheus makes no target.
options:
  folder:
    description: The folder for the files, as in C(monitoring/prometheus/prometheus.yml).
    type: path
    required: true
  node_port:
    description: Port of the node exporter on the fleet's hosts.
    type: int
    default: 9100
  dcgm_port:
    description: Port of the DCGM exporter.
    type: int
    default: 9400
author: [Firstlight contributors]
"""

EXAMPLES = r"""
- name: Write the targets
  fleet_prometheus:
    folder: /etc/prometheus/targets
"""

RETURN = r"""
msg:
  description: How many targets each job has.
  type: str
  returned: always
"""
