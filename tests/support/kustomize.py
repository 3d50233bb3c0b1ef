"""Renders the kustomizations of deploy/ without kubectl; an end-to-end test holds the two equal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from reactive_desched.sim.patches.json_patch import apply_json_patch

Object = dict[str, Any]  # a Kubernetes object, or a part of one, as JSON

_KNOWN = {"apiVersion", "kind", "namespace", "resources", "labels", "images", "patches"}


def rendered(folder: Path) -> list[Object]:
    """Return what applying a folder would create; raises ValueError at what it cannot render."""
    (told,) = documents(folder / "kustomization.yaml")
    if unknown := told.keys() - _KNOWN:
        raise ValueError(f"{folder}: {', '.join(sorted(unknown))} cannot be rendered here")
    found = [each for name in told["resources"] for each in _resource(folder / name)]
    for patch in told.get("patches", ()):
        found = _patched(found, patch)
    for each in found:
        _labelled(each, told.get("labels", ()))
        _with_images(each, told.get("images", ()))
    return found


def documents(path: Path) -> list[Object]:
    """Return every document of a YAML file."""
    return list(YAML(typ="safe").load_all(path))


def pod_template(workload: Object) -> Object:
    """Return the pod template of a Deployment, a Job or a CronJob."""
    spec = workload["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template: Object = spec["template"]
    return template


def _resource(path: Path) -> list[Object]:
    return rendered(path) if path.is_dir() else documents(path)


def _patched(found: list[Object], patch: Object) -> list[Object]:
    """Patch exactly one object: a patch that meets none would be lost without a word."""
    target, steps = patch["target"], YAML(typ="safe").load(patch["patch"])
    wanted = [each for each in found if _matches(each, target)]
    if len(wanted) != 1:
        raise ValueError(f"{target} is met {len(wanted)} times")
    return [apply_json_patch(each, steps) if each is wanted[0] else each for each in found]


def _matches(manifest: Object, target: Object) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (target["kind"], target["name"])


def _labelled(manifest: Object, labels: list[Object]) -> None:
    for each in labels:
        if each.keys() != {"pairs"}:
            raise ValueError("labels in selectors and templates cannot be rendered here")
        manifest["metadata"].setdefault("labels", {}).update(each["pairs"])


def _with_images(manifest: Object, images: list[Object]) -> None:
    named = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in images}
    for container in _containers(manifest):
        container["image"] = named.get(container["image"], container["image"])


def _containers(manifest: Object) -> Iterator[Object]:
    if manifest["kind"] in {"Deployment", "Job", "CronJob"}:
        yield from pod_template(manifest)["spec"]["containers"]
