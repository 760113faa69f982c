"""One thread against two, and a kernel in C beside ours."""
