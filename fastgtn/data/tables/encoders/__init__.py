"""Encoders of columns, one file each. An encoder is a plain record of its fitted values."""

from typing import Annotated

import pyarrow as pa
from pydantic import Field

from fastgtn.data.tables.config import Feature, FeatureKind
from fastgtn.data.tables.encoders.category import CategoryEncoder
from fastgtn.data.tables.encoders.date import DateEncoder
from fastgtn.data.tables.encoders.encoded import Encoded
from fastgtn.data.tables.encoders.items import ItemsEncoder
from fastgtn.data.tables.encoders.number import NumberEncoder
from fastgtn.data.tables.encoders.vector import VectorEncoder

Encoder = Annotated[
    NumberEncoder | CategoryEncoder | ItemsEncoder | VectorEncoder | DateEncoder, Field(discriminator="kind")
]
ENCODERS: dict[FeatureKind, type[NumberEncoder | CategoryEncoder | ItemsEncoder | VectorEncoder | DateEncoder]] = {
    "number": NumberEncoder,
    "category": CategoryEncoder,
    "code": CategoryEncoder,
    "text": ItemsEncoder,
    "list": ItemsEncoder,
    "vector": VectorEncoder,
    "date": DateEncoder,
}


def fit_encoder(column: pa.ChunkedArray, feature: Feature, what: str) -> Encoder:
    """Fit the encoder of a stated kind."""
    assert feature.kind is not None
    return ENCODERS[feature.kind].fit(column, feature, what)


__all__ = ["Encoded", "Encoder", "fit_encoder"]
