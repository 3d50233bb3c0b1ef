"""kubectl as the hands of a test: it changes a real cluster the way a person would."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Object = dict[str, Any]  # a Kubernetes object as JSON: tests read and write the wire format


class KubectlError(Exception):
    """kubectl ended with an error; the text is what it said."""


@dataclass(frozen=True)
class Kubectl:
    """kubectl with one kubeconfig; every call is bounded in time."""

    binary: Path
    kubeconfig: Path
    cache: Path
    timeout_s: float = 60

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its standard output, or raise `KubectlError`."""
        return self.run_loud(*arguments, stdin=stdin)[0]

    def run_loud(self, *arguments: str, stdin: str | None = None) -> tuple[str, str]:
        """Run kubectl and return its output and its warnings, or raise `KubectlError`."""
        done = subprocess.run(
            (*self._command(), *arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.timeout_s,
            check=False,
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout, done.stderr

    def apply(self, *objects: Object) -> None:
        """Create or change objects."""
        self.run("apply", "-f", "-", stdin=_as_list(objects))

    def get(self, kind: str, *arguments: str) -> list[Object]:
        """Return the objects of a kind; `arguments` narrow the choice as on a command line."""
        answer = json.loads(self.run("get", kind, "-o", "json", *arguments))
        items: list[Object] = answer.get("items", [answer])
        return items

    def argv(self, *arguments: str) -> tuple[str, ...]:
        """Return a whole command, for one that runs beside the test."""
        return (*self._command(), *arguments)

    def watching(self, kind: str, *arguments: str) -> tuple[str, ...]:
        """Return the command of a watch that prints every event as JSON until it is ended."""
        options = ("--watch", "--output-watch-events", "-o", "json")
        return self.argv("get", kind, *options, *arguments)

    def _command(self) -> tuple[str, ...]:
        files = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}")
        return (str(self.binary), *files)


def _as_list(objects: tuple[Object, ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
