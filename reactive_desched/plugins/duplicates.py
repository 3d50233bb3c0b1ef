"""A node holds more pods of one owner than its share, while other nodes could take some."""

from pydantic import Field

from reactive_desched.api.scope import NamespacedArgs


class DuplicatesArgs(NamespacedArgs):
    """Which pods count as duplicates of each other."""

    exclude_owner_kinds: tuple[str, ...] = Field(
        default=(), description="Leave pods of these owner kinds alone, for example StatefulSet."
    )
