"""The first lines of a child process: set the limits, then run the script.

This file is run by its path, in isolated mode, and imports only the standard library: importing `fastgtn` would
load torch, and the working directory may contain untrusted files.
"""

import runpy
import sys


def main(script: str, memory: str, *search: str) -> None:
    """Limit the address space, take the parent's search path, and run the script."""
    limit(int(memory))
    sys.path += [folder for folder in search if folder not in sys.path]
    runpy.run_path(script, run_name="__main__")


def limit(memory: int) -> None:
    """Limit the memory of this process if possible, and write no core files, which would contain user data."""
    try:
        import resource
    except ImportError:  # on Windows only the time limit of the parent applies
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ValueError, OSError):  # macOS refuses some limits
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
