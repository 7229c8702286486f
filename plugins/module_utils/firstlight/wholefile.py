"""Files that others may read at any time: they are whole, or as they were.

Standard library only, Python 3.8 or later: the self-contained file of the checks carries this.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(
    path: str | Path, content: str | bytes, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """Write a file whole or not at all, text as UTF-8, with these permissions whatever the umask says.

    It is on the disk when this returns. The name in between begins with a dot and ends otherwise, so that no pattern
    like ``*.prom`` takes it. A link at ``path`` is replaced. owner: the numbers of user and group, where they are not
    to be the writer's. OSError as the system has it, of ``path``.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    folder, name = os.path.split(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link
    try:
        handle, fresh = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if owner is not None:
                os.chown(fresh, *owner)
            Path(fresh).chmod(mode)  # after chown, which takes setuid away
            Path(fresh).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(fresh).unlink()
            raise
    except OSError as error:
        error.filename = str(path)  # and not that of the name in between
        raise
