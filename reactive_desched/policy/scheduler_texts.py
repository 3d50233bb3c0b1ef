"""Reads the configurations of schedulers that settings name by a file or a key of a ConfigMap.

Each is read as strictly as if it stood in the settings, and its messages name its own lines.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from reactive_desched.api.rules import Rule
from reactive_desched.policy.detect_kind import is_settings
from reactive_desched.policy.documents import SourceText, duplicate_keys
from reactive_desched.policy.source_files import read_source
from reactive_desched.policy.yaml.decode import Decoder, FieldHints
from reactive_desched.policy.yaml.diagnostics import DiagnosticList, PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import (
    ScalarNode,
    SourceMark,
    find,
    to_plain,
    without_duplicate_keys,
)

if TYPE_CHECKING:
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
    from reactive_desched.policy.settings.scheduler import ConfigMapKey, SchedulerConfiguration

_PLACE: Final = ("scheduler", "config")
_NOTHING: Final = ScalarNode(SourceMark(1, 1), None, "")
_NO_CONFIG_MAPS: Final[Mapping["ConfigMapKey", str]] = {}


class SchedulerTexts:
    """Reads the texts that one reading of settings asks for.

    Files are read when they are asked for; of ConfigMaps what was read last is given. `files` and
    `config_maps` are what was asked for, `read` the texts by the number of their item.
    """

    def __init__(self, known: Mapping["ConfigMapKey", str] = _NO_CONFIG_MAPS) -> None:
        self._known = known
        self.files: list[str] = []
        self.config_maps: list[ConfigMapKey] = []
        self.read: dict[int, SourceText] = {}

    def resolve(
        self, settings: "ReactiveSettings", at: SourceLocation, diagnostics: DiagnosticList
    ) -> "ReactiveSettings":
        """Return settings with the configurations that they name in place of those names.

        A ConfigMap that was not read yet stays a name.
        """
        written = settings.scheduler.config
        if not any(each.is_elsewhere for each in written):
            return settings
        place = at.below(*_PLACE)
        found = [
            self._configuration(each, number, place, diagnostics)
            for number, each in enumerate(written)
        ]
        schedulers = settings.scheduler.model_copy(update={"config": tuple(found)})
        for error in schedulers.same_names():
            diagnostics.add(at.below("scheduler").error(error))
        return settings.model_copy(update={"scheduler": schedulers})

    def _configuration(
        self,
        written: "SchedulerConfiguration",
        number: int,
        place: SourceLocation,
        diagnostics: DiagnosticList,
    ) -> "SchedulerConfiguration":
        if (source := self._text(written, place.source, diagnostics)) is None:
            return written
        self.read[number] = source
        return _read_configuration(source, diagnostics) or written

    def _text(
        self, written: "SchedulerConfiguration", settings: str, diagnostics: DiagnosticList
    ) -> SourceText | None:
        if (key := written.config_map) is not None:
            self.config_maps.append(key)
            text = self._known.get(key)
            return None if text is None else SourceText(text, str(key), is_of_api=True)
        if written.file is None:
            return None
        path = str(Path(settings).parent / written.file)
        self.files.append(path)
        return read_source(path, diagnostics)


def _read_configuration(
    source: SourceText, diagnostics: DiagnosticList
) -> "SchedulerConfiguration | None":
    diagnostics.texts[source.name] = source.text
    try:
        return _decode(source)
    except PolicyErrors as error:
        for problem in error.diagnostics:
            # Corrections are made in the text that is checked, which is another one.
            diagnostics.add(replace(problem, fix=None))
        return None


def _decode(source: SourceText) -> "SchedulerConfiguration":
    """Read one configuration; raises PolicyErrors with everything wrong in it."""
    from reactive_desched.policy.settings.scheduler import SchedulerConfiguration

    found = DiagnosticList()
    trees = read_documents(source.text, source.name)
    at = SourceLocation(source.name, trees[0] if trees else _NOTHING)
    if len(trees) > 1:
        more = SourceLocation(source.name, trees[1])
        hint = "give each configuration a file or a key of its own"
        found.add(more.diagnostic("this is a second document", hint, rule=Rule.SECOND_DOCUMENT))
    for problem in duplicate_keys(at, is_strict=True):
        found.add(problem)
    for field, rule in (("apiVersion", Rule.MISSING_API_VERSION), ("kind", Rule.MISSING_KIND)):
        if at.below(field).is_null:
            hint = "the kube-scheduler does not read a file without it"
            found.add(at.diagnostic(f"has no {field}", hint, rule=rule))
    read = Decoder(found, FieldHints()).decode(SchedulerConfiguration, at)
    for field in ("file", "configMap"):
        if not at.below(field).is_null:
            hint = "write the configuration itself here"
            found.add(at.below(field).diagnostic("unknown field", hint, rule=Rule.UNKNOWN_FIELD))
    found.raise_if_errors()
    assert read is not None, "what is not decoded has an error"
    return read


def with_texts(source: SourceText, read: Mapping[int, SourceText]) -> str:
    """Return a text whose settings hold the configurations that they name, as they were read.

    What they do not name is as it was written, but for comments and the way of writing.
    """
    text = source.text if isinstance(source.text, str) else source.text.decode(errors="replace")
    if not read:
        return text
    trees = read_documents(source.text, source.name)
    if not any(map(is_settings, trees)):
        return text
    documents = []
    for tree in trees:
        document = to_plain(without_duplicate_keys(tree))
        if is_settings(tree) and find(tree, _PLACE) is not None:
            _put(document, read)
        documents.append(f"---\n{json.dumps(document, indent=2)}\n")
    return "".join(documents)


def _put(document: object, read: Mapping[int, SourceText]) -> None:
    assert isinstance(document, dict), "settings are a table"
    for number, source in read.items():
        (tree,) = read_documents(source.text, source.name)
        document["scheduler"]["config"][number] = to_plain(tree)
