"""Renders the kustomizations of deploy/ without kubectl; an end-to-end test holds the two equal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.sim.patches.json_patch import apply_json_patch

Object = dict[str, Any]  # a Kubernetes object, or a part of one, as JSON

_SUPPORTED_FIELDS = {"apiVersion", "kind", "namespace", "resources", "labels", "images", "patches"}


def render(folder: Path) -> list[Object]:
    """Return what applying a folder would create; raises ValueError at what it cannot render."""
    (unsupported,) = documents(folder / "kustomization.yaml")
    if unknown := unsupported.keys() - _SUPPORTED_FIELDS:
        raise ValueError(f"{folder}: {', '.join(sorted(unknown))} cannot be rendered here")
    manifests = [each for name in unsupported["resources"] for each in _resource(folder / name)]
    for patch in unsupported.get("patches", ()):
        manifests = _patched(manifests, patch)
    for each in manifests:
        _labelled(each, unsupported.get("labels", ()))
        _with_images(each, unsupported.get("images", ()))
    return manifests


def documents(path: Path) -> list[Object]:
    """Return every document of a YAML file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pod_template(workload: Object) -> Object:
    """Return the pod template of a Deployment, a Job or a CronJob."""
    spec = workload["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template: Object = spec["template"]
    return template


def _resource(path: Path) -> list[Object]:
    return render(path) if path.is_dir() else documents(path)


def _patched(manifests: list[Object], patch: Object) -> list[Object]:
    """Patch exactly one object: a patch that meets none would be lost without a word."""
    target, steps = patch["target"], yaml.safe_load(patch["patch"])
    wanted = [each for each in manifests if _matches(each, target)]
    if len(wanted) != 1:
        raise ValueError(f"{target} is met {len(wanted)} times")
    return [apply_json_patch(each, steps) if each is wanted[0] else each for each in manifests]


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
