"""Measures a descheduler on the simulated cluster: how soon it acts, what it asks and takes.

    python -m tools.compare reactive-desched
    python -m tools.compare sig-descheduler --binary ./descheduler

The program runs with one policy that both read, `examples/comparison/policy.yaml`, against
`reactive-desched sim --scenario busy`, in which no pod is wrong at first. A proxy between them
counts requests and bytes. After the program has listed the cluster it is left at rest; then nodes
are tainted one after the other, each until the first eviction request comes. Figures are printed as
JSON. CPU and memory are those of the program's process alone, from /proc.

The SIG descheduler is built from the locked module in `tools/real/descheduler`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import socket
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

ROOT = Path(__file__).resolve().parents[1]
POLICY = ROOT / "examples" / "comparison" / "policy.yaml"
HOP_BY_HOP = {"host", "transfer-encoding", "content-length", "connection", "accept-encoding"}
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Traffic:
    """What went through the proxy."""

    requests: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)
    watched: set[str] = field(default_factory=set)
    evicted: asyncio.Event = field(default_factory=asyncio.Event)

    def copy(self) -> dict[str, Counter[str]]:
        """Return what was counted so far."""
        return {"requests": Counter(self.requests), "bytes": Counter(self.bytes)}

    def since(self, before: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
        """Return what was counted since."""
        now = self.copy()
        return {name: dict(now[name] - before[name]) for name in now}


def verb_of(request: web.BaseRequest) -> str:
    """Name a request as Kubernetes does, such as list, watch, get or create."""
    if request.path.endswith("/eviction"):
        return "evict"
    if request.method != "GET":
        return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(request.method, "delete")
    if request.query.get("watch") in ("1", "true"):
        return "watch"
    collection = re.fullmatch(r"/(api|apis/[^/]+)/[^/]+(/namespaces/[^/]+)?/[a-z]+", request.path)
    return "list" if collection else "get"


@asynccontextmanager
async def counting_proxy(server: str, traffic: Traffic) -> AsyncIterator[str]:
    """Serve the API server's answers on a port of loopback, and count them."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False
    ) as http:

        async def forward(request: web.BaseRequest) -> web.StreamResponse:
            verb = verb_of(request)
            traffic.requests[verb] += 1
            if verb == "evict":
                traffic.evicted.set()
            if verb == "watch":
                traffic.watched.add(request.path.rpartition("/")[2])
            headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP}
            body = await request.read()
            async with http.request(
                request.method, server + request.path_qs, headers=headers, data=body
            ) as answer:
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
                out = web.StreamResponse(status=answer.status, headers=kept)
                with contextlib.suppress(ConnectionResetError):  # a watch that the program ended
                    await out.prepare(request)
                    async for piece in answer.content.iter_any():
                        traffic.bytes[verb] += len(piece)
                        await out.write(piece)
                    await out.write_eof()
                return out

        runner = web.ServerRunner(web.Server(forward), shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port := free_port())
        await site.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await runner.cleanup()


def free_port() -> int:
    """Return a port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Usage:
    """What a process has taken."""

    cpu_s: float
    rss_mb: float
    peak_mb: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Read it from /proc."""
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = dict(
            re.findall(r"^(\w+):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        )
        return cls(
            (int(fields[11]) + int(fields[12])) / CLOCK_TICKS,
            int(status["VmRSS"]) / 1024,
            int(status["VmHWM"]) / 1024,
        )


def command(args: argparse.Namespace, kubeconfig: Path, folder: Path) -> list[str]:
    """Return what starts the program."""
    if args.program == "reactive-desched":
        journal = ("--journal", f"{folder}/journal", "--listen", f"127.0.0.1:{free_port()}")
        program = [sys.executable, "-m", "reactive_desched", "run", "--policy", str(args.policy)]
        return [*program, "--kubeconfig", str(kubeconfig), *journal]
    return [
        *(args.binary, "--kubeconfig", str(kubeconfig), "--policy-config-file", str(args.policy)),
        *("--descheduling-interval", args.interval, "--secure-port", "0", "--disable-metrics"),
    ]


async def measure(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run the simulated cluster, the proxy and the program, and return the figures."""
    kubeconfig = folder / "kubeconfig"
    sim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reactive_desched", "sim", "--scenario", "busy"),
        *("--nodes", str(args.nodes), "--pods", str(args.pods)),
        *("--write-kubeconfig", str(kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    program: Process | None = None
    try:
        assert sim.stdout is not None
        while b"ready:" not in (line := await sim.stdout.readline()):
            assert line, "the simulated cluster ended"
        sys.stderr.write(line.decode())
        server = re.findall(r"server: (\S+)", kubeconfig.read_text())[0]
        traffic = Traffic()
        async with counting_proxy(server, traffic) as url:
            (folder / "proxied").write_text(kubeconfig.read_text().replace(server, url))
            with Path(args.log).open("wb") as log:  # noqa: ASYNC230 - once, at the start
                program = await asyncio.create_subprocess_exec(
                    *command(args, folder / "proxied", folder), stdout=log, stderr=log
                )
            try:
                return await figures(args, program.pid, server, traffic)
            finally:
                program.terminate()
                await program.wait()
    finally:
        sim.terminate()
        await sim.wait()


async def figures(
    args: argparse.Namespace, pid: int, server: str, traffic: Traffic
) -> dict[str, object]:
    """Measure the first look, the rest, and reactions, in this order."""
    while "pods" not in traffic.watched:
        await asyncio.sleep(0.5)
        os.kill(pid, 0)  # or the program has ended: see --log
    await asyncio.sleep(args.settle)
    start, at_start = Usage.of(pid), traffic.copy()
    await asyncio.sleep(args.rest)
    rested, in_rest = Usage.of(pid), traffic.since(at_start)
    hour = 3600 / args.rest
    reactions = []
    async with aiohttp.ClientSession(server) as http:
        async with http.get("/api/v1/nodes") as answer:
            names = [item["metadata"]["name"] for item in (await answer.json())["items"]]
        for node in names[10 : 10 + args.taints]:
            await asyncio.sleep(args.gap)
            traffic.evicted.clear()
            tainted = time.monotonic()
            await taint(http, node, [{"key": "spent", "effect": "NoSchedule"}])
            await traffic.evicted.wait()
            reactions.append(round(time.monotonic() - tainted, 3))
            sys.stderr.write(f"reaction {reactions[-1]} s\n")
            await taint(http, node, [])
    return {
        "program": args.program,
        "first look": {
            "cpu_s": round(start.cpu_s, 2),
            "peak_mb": round(start.peak_mb),
            **{name: dict(each) for name, each in at_start.items()},
        },
        "at rest, an hour": {
            "cpu_s": round((rested.cpu_s - start.cpu_s) * hour, 1),
            "rss_mb": round(rested.rss_mb),
            "watched": sorted(traffic.watched),
            **{n: {k: round(v * hour) for k, v in each.items()} for n, each in in_rest.items()},
        },
        "taint to eviction request, s": reactions,
    }


async def taint(http: aiohttp.ClientSession, node: str, taints: list[dict[str, str]]) -> None:
    """Set the taints of a node."""
    body = json.dumps({"spec": {"taints": taints}})
    headers = {"Content-Type": "application/merge-patch+json"}
    async with http.patch(f"/api/v1/nodes/{node}", data=body, headers=headers) as answer:
        answer.raise_for_status()


def main() -> None:
    """Measure one program and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("program", choices=("reactive-desched", "sig-descheduler"))
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--policy", type=Path, default=POLICY)
    parser.add_argument("--binary", default="descheduler", help="the SIG descheduler's")
    parser.add_argument("--interval", default="5m", help="--descheduling-interval of that one")
    parser.add_argument("--settle", type=float, default=45, help="seconds before (default 45)")
    parser.add_argument("--rest", type=float, default=600, help="seconds at rest (default 600)")
    parser.add_argument("--taints", type=int, default=5, help="nodes to taint (default 5)")
    parser.add_argument("--gap", type=float, default=37, help="seconds between them (default 37)")
    parser.add_argument("--log", default=os.devnull, help="where the program's output goes")
    with tempfile.TemporaryDirectory() as folder:
        answer = asyncio.run(measure(parser.parse_args(), Path(folder)))
    sys.stdout.write(json.dumps(answer, indent=2) + "\n")


if __name__ == "__main__":
    main()
