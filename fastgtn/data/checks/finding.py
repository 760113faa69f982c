"""The result of a check."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One finding: an "error" makes results wrong, a "warning" may do so, a "note" is for information."""

    check: str
    severity: Severity
    message: str
    advice: str

    def as_json(self) -> dict[str, Any]:
        """Plain containers for JSON."""
        return asdict(self)
