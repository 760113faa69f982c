"""`python -m fastgtn` is the same as `fastgtn`; torchrun starts it this way."""

from fastgtn.cli import main

main()
