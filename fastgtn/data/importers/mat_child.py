"""The child process that reads MATLAB files: scipy's reader is C code, which damaged files may crash.

Run as a script it answers one request of :class:`fastgtn.data.child.Child`. It imports nothing of `fastgtn` and sends
arrays unchecked; the caller checks them.
"""

import json
import os
import sys
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp


def main() -> None:
    """Answer ``{"path", "names"}`` with the arrays of each variable: a line that describes them, then their bytes."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not look like an answer
    request = json.loads(sys.stdin.readline())
    parts: list[np.ndarray[Any, np.dtype[Any]]] = []
    reply: dict[str, Any]
    try:
        reply = {"variables": _variables(request["path"], request["names"], parts)}
    except NotImplementedError:
        reply = {"error": "7.3"}
    except Exception as error:  # a damaged file may fail anywhere in the reader
        reply = {"error": f"{type(error).__name__}: {error}"}
    replies.write(json.dumps(reply).encode() + b"\n")
    for part in parts:
        replies.write(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
    replies.flush()


def _variables(path: str, names: list[str], parts: list[Any]) -> dict[str, Any]:
    """Layout, shape and arrays of each variable; the arrays themselves are appended to `parts`."""
    found = scipy.io.loadmat(path, variable_names=names)
    described: dict[str, Any] = {name: None for name, *_ in scipy.io.whosmat(path)}
    for name in names:
        if name not in found:
            continue
        value = found[name]
        if sp.issparse(value) and value.format in ("csc", "coo"):
            rest = (value.indices, value.indptr) if value.format == "csc" else (value.row, value.col)
            arrays, layout = [value.data, *rest], value.format
        elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays, layout = [value], "dense"
        else:
            arrays, layout = [], type(value).__name__
        parts += arrays
        shapes = [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]
        described[name] = {"layout": layout, "shape": getattr(value, "shape", ()), "arrays": shapes}
    return described


if __name__ == "__main__":
    main()
