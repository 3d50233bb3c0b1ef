"""Real Helm, which renders and installs the chart."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

Values = Mapping[str, Any]  # YAML as written by people
Object = dict[str, Any]  # a Kubernetes object as JSON
ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "charts" / "reactive-desched"
RELEASE = "reactive-desched"


class HelmError(Exception):
    """Helm ended with an error; the text is what it said."""


class Helm:
    """Real Helm with folders of its own."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._env = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}

    def run(self, *arguments: str, values: Values | None = None) -> str:
        """Run Helm and return what it printed; raises `HelmError`."""
        path = self._folder / "values.yaml"
        path.write_text(json.dumps(values or {}))
        argv = (str(self._binary), *arguments, *(() if values is None else ("-f", str(path))))
        done = subprocess.run(
            argv, cwd=ROOT, env=self._env, capture_output=True, text=True, check=False, timeout=100
        )
        if done.returncode:
            raise HelmError(done.stderr + done.stdout)
        return done.stdout

    def template(
        self,
        values: Values,
        release: str = RELEASE,
        namespace: str = RELEASE,
        chart: Path = CHART,
    ) -> list[Object]:
        """Return the objects of a release of these values."""
        text = self.run("template", release, str(chart), "-n", namespace, values=values)
        return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]
