"""Fetches Apache Kafka as jars with Maven, each checked against the digest that is kept with us.

The jars lie in a folder of their own, so that a new Kafka does not rebuild Kubernetes, nor the
other way round. Maven brings them; `kafka/SHA256SUMS` says what they must be.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.real.cache import BuildError, locked, log_progress, root, stamped, write_stamp

KAFKA_DIR = Path(__file__).resolve().parent / "kafka"
POM = KAFKA_DIR / "pom.xml"
CHECKSUMS = KAFKA_DIR / "SHA256SUMS"
NO_MAVEN = (
    "Maven was not found, and Kafka {version} must be fetched: install Maven 3.8 or newer"
    " (https://maven.apache.org/install.html) and put `mvn` on PATH, then run"
    " `make real-tools` again."
)
NO_JAVA = (
    "Java was not found, and Kafka runs on it: install a Java 17 runtime or newer and put `java`"
    " on PATH, or set JAVA_HOME, then run `make real-tools` again."
)
FETCH_TIMEOUT_S = 900


def version() -> str:
    """Return the version of Kafka that the pom pins."""
    match = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text())
    if match is None:
        raise BuildError(f"{POM} does not say kafka.version")
    return match[1]


def digests() -> dict[str, str]:
    """Return the SHA-256 of each jar by its name, in the form `sha256sum` writes."""
    lines = (line.split() for line in CHECKSUMS.read_text().splitlines())
    return {name: digest for digest, name in lines}


def folder_of(env: Mapping[str, str]) -> Path:
    """Return the folder of these jars; it need not exist."""
    digest = hashlib.sha256(POM.read_bytes() + CHECKSUMS.read_bytes()).hexdigest()
    return root(env) / f"kafka-{version()}_{digest[:10]}"


def find_java(env: Mapping[str, str]) -> Path | None:
    """Return the Java that JAVA_HOME names, else the one on PATH."""
    if home := env.get("JAVA_HOME"):
        path = Path(home).absolute() / "bin" / "java"
        return path if path.is_file() else None
    program = shutil.which("java", path=env.get("PATH"))
    return Path(program) if program else None


def resolve(env: Mapping[str, str]) -> dict[str, str | None]:
    """Say what Kafka is run with: `None` for what is missing."""
    java, libs = find_java(env), folder_of(env) / "libs"
    is_complete = stamped(folder_of(env)) == {"libs"} and all(
        (libs / jar).is_file() for jar in digests()
    )
    return {
        "version": version(),
        "java": str(java) if java else None,
        "libs": str(libs) if is_complete else None,
    }


def fetch(env: Mapping[str, str]) -> None:
    """Fetch the jars unless they are there; half of them count as none."""
    if find_java(env) is None:
        raise BuildError(NO_JAVA)
    folder = folder_of(env)
    with locked(folder):
        if resolve(env)["libs"]:
            log_progress(f"Kafka is ready in {folder}")
            return
        maven = shutil.which("mvn", path=env.get("PATH"))
        if maven is None:
            raise BuildError(NO_MAVEN.format(version=version()))
        log_progress(f"fetching Kafka {version()} (some 54 MB)")
        staging = folder / "fetching"
        shutil.rmtree(staging, ignore_errors=True)
        _run_maven(maven, staging)
        check(staging)
        shutil.rmtree(folder / "libs", ignore_errors=True)
        staging.replace(folder / "libs")
        write_stamp(folder, {"libs"})


def check(libs: Path) -> None:
    """Raise BuildError unless the folder holds exactly the jars we know, each unchanged."""
    expected = digests()
    actual = {jar.name: _sha256(jar) for jar in libs.glob("*.jar")}
    wrong = sorted(name for name, digest in expected.items() if actual.get(name) != digest)
    wrong += sorted(actual.keys() - expected.keys())
    if wrong:
        raise BuildError(
            f"{len(wrong)} jars are not those that {CHECKSUMS} lists: {', '.join(wrong[:5])}."
            " If the pom was changed on purpose, renew the list with"
            f" `cd {libs} && sha256sum *.jar > {CHECKSUMS}` and look at what changed."
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_maven(maven: str, target: Path) -> None:
    """Let Maven copy all jars into a folder; it stops at a checksum that is not the server's."""
    goal = ("-Dstyle.color=never", "dependency:copy-dependencies", f"-DoutputDirectory={target}")
    argv = (maven, "--batch-mode", "--quiet", "--strict-checksums", f"--file={POM}", *goal)
    try:
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, timeout=FETCH_TIMEOUT_S)  # noqa: S603 - the command is ours, there is no shell
    except subprocess.CalledProcessError as error:
        raise BuildError("`mvn` could not fetch Kafka: see above.") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"`mvn` did not end within {FETCH_TIMEOUT_S} s: is it offline?") from error
