"""The section `chat` of the settings: where proposals are written to for people."""

from typing import Annotated, Literal

from pydantic import Field

from reactive_desched.api.args import Seconds, Section

ChatForm = Literal["slack", "teams"]


class ChatSettings(Section):
    """Messages about what plugins propose (`mode: propose`), to an incoming webhook of a chat."""

    form: ChatForm = Field(
        description="What the webhook takes: `slack`, an incoming webhook of Slack; `teams`, a "
        "webhook of the Workflows app of Microsoft Teams."
    )
    url_file: str = Field(
        description="File with the URL of the webhook, which is a secret; it is read for each "
        "message."
    )
    every_s: Annotated[Seconds, Field(ge=10)] = Field(
        default=60.0,
        description="At most one message in so long, about all that was proposed since the last "
        "one; at least 10s.",
    )
    ca_file: str = Field(
        default="", description="PEM file of authorities to trust; default: the system's."
    )
