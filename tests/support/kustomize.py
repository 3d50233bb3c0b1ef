"""Renders the kustomizations of deploy/ without kubectl; an end-to-end test holds the two equal."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.sim.patches.json_patch import apply_json_patch

Object = dict[str, Any]  # a Kubernetes object, or a part of one, as JSON

_SUPPORTED_FIELDS = {
    *("apiVersion", "kind", "namespace", "nameSuffix", "resources"),
    *("labels", "images", "patches", "configMapGenerator"),
}
_KEEP_THEIR_NAMES = ("Namespace",)
_OF_THE_CLUSTER = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "PriorityClass")


def render(folder: Path) -> list[Object]:
    """Return what applying a folder would create; raises ValueError at what it cannot render."""
    (unsupported,) = documents(folder / "kustomization.yaml")
    if unknown := unsupported.keys() - _SUPPORTED_FIELDS:
        raise ValueError(f"{folder}: {', '.join(sorted(unknown))} cannot be rendered here")
    manifests = [
        each for name in unsupported.get("resources", ()) for each in _resource(folder / name)
    ]
    for generated in unsupported.get("configMapGenerator", ()):
        if "behavior" in generated:
            _merged(manifests, generated, folder)
        else:
            manifests.append(_generated(generated, folder, unsupported["namespace"]))
    for patch in unsupported.get("patches", ()):
        manifests = _patched(manifests, patch)
    if "namespace" in unsupported:
        _moved(manifests, unsupported["namespace"])
    for each in manifests:
        _labelled(each, unsupported.get("labels", ()))
        _with_images(each, unsupported.get("images", ()))
    return _renamed(manifests, unsupported.get("nameSuffix", ""))


def documents(path: Path) -> list[Object]:
    """Return every document of a YAML file."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def pod_template(workload: Object) -> Object:
    """Return the pod template of a Deployment, a Job or a CronJob."""
    spec = workload["spec"]
    if workload["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template: Object = spec["template"]
    return template


def _resource(path: Path) -> list[Object]:
    return render(path) if path.is_dir() else documents(path)


def _generated(generated: Object, folder: Path, namespace: str) -> Object:
    """Return a new ConfigMap of files, under its own name."""
    options = generated["options"]
    if options.keys() != {"disableNameSuffixHash", "labels"}:
        raise ValueError(f"{folder}: a ConfigMap with these options cannot be rendered here")
    meta = {"name": generated["name"], "namespace": namespace, "labels": options["labels"]}
    data = {
        key: (folder / (path or key)).read_text(encoding="utf-8")
        for key, _, path in (each.partition("=") for each in generated["files"])
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def _merged(manifests: list[Object], generated: Object, folder: Path) -> None:
    """Put files into a ConfigMap that is there, under its own name."""
    expected = {"behavior": "merge", "options": {"disableNameSuffixHash": True}}
    if {field: generated.get(field) for field in expected} != expected:
        raise ValueError(f"{folder}: this generator of ConfigMaps cannot be rendered here")
    target = {"kind": "ConfigMap", "name": generated["name"]}
    (found,) = (each for each in manifests if _matches(each, target))
    for name in generated["files"]:
        found["data"][name] = (folder / name).read_text(encoding="utf-8")


def _patched(manifests: list[Object], patch: Object) -> list[Object]:
    """Patch exactly one object: a patch that meets none would be lost without a word."""
    steps = yaml.safe_load(patch["patch"])
    deletes = isinstance(steps, dict)
    target = {"kind": steps["kind"], **steps["metadata"]} if deletes else patch["target"]
    if deletes and steps.pop("$patch", None) != "delete":
        raise ValueError("of merge patches only $patch: delete can be rendered here")
    wanted = [each for each in manifests if _matches(each, target)]
    if len(wanted) != 1:
        raise ValueError(f"{target} is met {len(wanted)} times")
    if deletes:
        return [each for each in manifests if each is not wanted[0]]
    return [apply_json_patch(each, steps) if each is wanted[0] else each for each in manifests]


def _moved(manifests: list[Object], namespace: str) -> None:
    """Put all objects into a namespace, which a Namespace among them is then called."""
    accounts = {each["metadata"]["name"] for each in manifests if each["kind"] == "ServiceAccount"}
    for each in manifests:
        if each["kind"] == "Namespace":
            each["metadata"]["name"] = namespace
        elif each["kind"] not in _OF_THE_CLUSTER:
            each["metadata"]["namespace"] = namespace
        for subject in each.get("subjects", ()):
            if subject["kind"] == "ServiceAccount" and subject["name"] in accounts:
                subject["namespace"] = namespace


def _renamed(manifests: list[Object], suffix: str) -> list[Object]:
    """Add a suffix to every name, and to what refers to it by name."""
    if not suffix:
        return manifests
    named = {(each["kind"], each["metadata"]["name"]) for each in manifests}
    named = {key for key in named if key[0] not in _KEEP_THEIR_NAMES}
    for each in manifests:
        if each["kind"] not in _KEEP_THEIR_NAMES:
            each["metadata"]["name"] += suffix
        for holder, field, kind in _references(each):
            if (kind, holder[field]) in named:
                holder[field] += suffix
    return manifests


def _references(manifest: Object) -> Iterator[tuple[Object, str, str]]:
    """Yield where another object is named: the holder, the field, and that object's kind."""
    if role := manifest.get("roleRef"):
        yield role, "name", role["kind"]
        for subject in manifest["subjects"]:
            yield subject, "name", subject["kind"]
    if manifest["kind"] in {"Deployment", "Job", "CronJob"}:
        spec = pod_template(manifest)["spec"]
        yield spec, "serviceAccountName", "ServiceAccount"
        for volume in spec["volumes"]:
            if "configMap" in volume:
                yield volume["configMap"], "name", "ConfigMap"
            if "persistentVolumeClaim" in volume:
                yield volume["persistentVolumeClaim"], "claimName", "PersistentVolumeClaim"


def _matches(manifest: Object, target: Object) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (target["kind"], target["name"])


def _labelled(manifest: Object, labels: list[Object]) -> None:
    for each in labels:
        if each.keys() != {"pairs"}:
            raise ValueError("labels in selectors and templates cannot be rendered here")
        manifest["metadata"].setdefault("labels", {}).update(each["pairs"])


def _with_images(manifest: Object, images: list[Object]) -> None:
    named = {image["name"]: image for image in images}
    for container in _containers(manifest):
        if image := named.get(container["image"].partition(":")[0]):
            version = f"@{image['digest']}" if "digest" in image else f":{image['newTag']}"
            container["image"] = image["newName"] + version


def _containers(manifest: Object) -> Iterator[Object]:
    if manifest["kind"] in {"Deployment", "Job", "CronJob"}:
        yield from pod_template(manifest)["spec"]["containers"]
