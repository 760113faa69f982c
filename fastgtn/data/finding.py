"""The answer of a check."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One thing found: "error" makes results wrong, "warning" may, "note" is good to know."""

    check: str
    severity: Severity
    message: str
    advice: str

    def as_json(self) -> dict[str, Any]:
        """Plain containers for JSON."""
        return asdict(self)
