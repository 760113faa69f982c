"""`fastgtn doctor`: what this installation is, and whether its parts work."""

from fastgtn.cli.doctor.command import doctor_command

__all__ = ["doctor_command"]
