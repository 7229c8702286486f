"""How inventory plugins refuse: one line on the screen."""

from __future__ import annotations

from ansible.errors import AnsibleParserError


class Refusal(AnsibleParserError):
    """An error whose text Ansible shows once.

    By default Ansible points at the plugin's configuration file, which need not be the file that is wrong, and prints
    the text a second time to do so.
    """

    _formatted_source_context = None
