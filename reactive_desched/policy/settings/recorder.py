"""Settings of the recording of what the controller sees, with safe defaults."""

from typing import Final

from pydantic import Field, model_validator

from reactive_desched.api.args import PositiveSeconds, Section, field_error
from reactive_desched.api.rules import Rule
from reactive_desched.policy.settings.recording import DAY_S, MIB, ByteCount

_HOUR_S: Final = 3600.0


class RecordedSegmentSettings(Section):
    """The length of a segment: each has a picture of the whole cluster at its head."""

    max_bytes: ByteCount = Field(
        default=32 * MIB,
        description="Begin a new segment when the changes behind the picture take so much.",
    )
    max_age_s: PositiveSeconds = Field(
        default=6 * _HOUR_S, description="Begin a new segment when one is this old."
    )


class RecorderSettings(Section):
    """The recording of what the controller sees, so that any moment can be looked at again."""

    enabled: bool = Field(
        default=False,
        description="Record every change that the controller sees. The manifests and the chart"
        " switch it on.",
    )
    directory: str = Field(
        default="",
        description="Folder of the recording. Default: the folder recording in that of the"
        " journal.",
    )
    max_bytes: ByteCount = Field(
        default=256 * MIB, description="Remove the oldest segments beyond this size in all."
    )
    max_age_s: PositiveSeconds = Field(
        default=7 * DAY_S, description="Remove segments that end longer ago than this."
    )
    segment: RecordedSegmentSettings = Field(
        default=RecordedSegmentSettings.model_construct(), description="How long a segment is."
    )

    @model_validator(mode="after")
    def _check_segment_fits(self) -> "RecorderSettings":
        """Check that a segment is a part of the whole: the last one is never removed."""
        if 2 * self.segment.max_bytes > self.max_bytes:
            raise field_error(
                "segment.maxBytes is more than half of maxBytes",
                "lower it, so that a segment can be removed while the next is written",
                ("segment", "maxBytes"),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self
