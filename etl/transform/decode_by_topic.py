"""A `decode:` section with entries by topic: which step decodes which topic's records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError
from kseg.etl.transform.decode import NO_SCHEMAS, DecodeStep, decode_step
from kseg.etl.transform.step import Address, BatchStep

if TYPE_CHECKING:
    from kseg.etl.config.decoding import Decode
    from kseg.etl.decoding.bad_records import BadRecords

OTHERS = "*"


@dataclass(frozen=True)
class DecodeByTopic(BatchStep):
    """steps: by topic, `*` for all topics that are not named."""

    steps: Mapping[str, DecodeStep]
    place: str = "decode"

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self.steps)

    @property
    def decodes(self) -> bool:
        return True

    @property
    def has_dead_letters(self) -> bool:
        return any(step.has_dead_letters for step in self.steps.values())

    @property
    def sets_aside(self) -> bool:
        return any(step.sets_aside for step in self.steps.values())

    def of_topic(self, topic: str) -> BatchStep:
        step = self.steps.get(topic) or self.steps.get(OTHERS)
        if step is None:
            raise ConfigurationError.of(
                "decode", f"says nothing of topic {topic}", 'add the topic, or "*" for all other topics'
            )
        return step

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        raise TypeError("each topic has a schema of its own: ask the step of a topic")

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        return self.of_topic(address["topic"]).apply(batch, address, bad_records)


def as_landed(step: BatchStep, engine: Literal["fast", "reference"] = "fast") -> BatchStep:
    """A `decode:` step for records that have landed: a record that cannot be decoded any more is a row of nulls."""
    if isinstance(step, DecodeByTopic):
        return replace(step, steps={topic: _as_landed(own, engine) for topic, own in step.steps.items()})
    return _as_landed(step, engine) if isinstance(step, DecodeStep) else step


def _as_landed(step: DecodeStep, engine: Literal["fast", "reference"]) -> DecodeStep:
    payloads = tuple(replace(plan, engine=engine) for plan in step.payloads)
    return replace(step, payloads=payloads, on_error="set_null", refuses_names=False)


def decode_step_of(
    decode: Decode | Mapping[str, Decode],
    schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS,
    rules: DecodingRules = NEWEST,
    refuses_names: Callable[[Decode], bool] = lambda section: False,
) -> BatchStep:
    """The step of a job's `decode:` section, in either of its forms.

    schemas: of a registry, by lineage. refuses_names: whether a section's step refuses names of headers.
    """

    def step(section: Decode, place: str) -> DecodeStep:
        return decode_step(section, place, schemas, rules, refuses_names=refuses_names(section))

    if isinstance(decode, Mapping):
        return DecodeByTopic({topic: step(section, f"decode.{topic}") for topic, section in decode.items()})
    return step(decode, "decode")
