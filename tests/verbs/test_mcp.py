"""The verbs as tools: a real client, files outside of the folders, options not offered."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from models import conv_net, save, to_tflite
from npuscope.errors import UsageError
from npuscope.verbs.assistant_tools import READS, WRITES, Tools
from npuscope.verbs.table import record


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    models.mkdir()
    save(models, "net.tflite", to_tflite(conv_net()))
    save(tmp_path, "secret.tflite", to_tflite(conv_net()))
    (models / "link.tflite").symlink_to(tmp_path / "secret.tflite")
    return models


@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_every_option_of_the_lists_is_one_of_the_verb(name: str) -> None:
    names = {option.name for option in record(name).options}
    assert set((dict(READS) | dict(WRITES))[name].split()) <= names


def test_a_call_becomes_a_command(folder: Path) -> None:
    tools = Tools([folder], writes=False)
    values = {"source": "net.tflite", "generation": "3.0", "epoch_controller": False}
    values |= {"overrides": ["machine.npu.clock_mhz=800"], "sensitivity": True}
    assert tools.words("estimate", values) == [
        "estimate",
        "--sensitivity",
        "--generation=3.0",
        "--no-epoch-controller",
        "--set=machine.npu.clock_mhz=800",
        str(folder / "net.tflite"),
    ]


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("estimate", {"source": "../secret.tflite"}, "outside of the folders"),
        ("estimate", {"source": "/etc/passwd"}, "outside of the folders"),
        ("estimate", {"source": "link.tflite"}, "outside of the folders"),
        ("estimate", {"source": "net.tflite", "mpool": "/etc/passwd"}, "outside of the folders"),
        ("estimate", {"source": "net.tflite", "html": "x.html"}, "takes no 'html'"),
        ("estimate", {"source": "net.tflite", "machine": "/etc/machine.toml"}, "plain value"),
        ("profile", {"source": "net.tflite", "connect": "socket:a:1"}, "takes no 'connect'"),
        ("estimate", {"source": "net.tflite", "vela": "/bin/sh"}, "takes no 'vela'"),
        ("rules", {"rule": "--json=/tmp/x"}, "plain value"),
        ("fix", {"model": "net.tflite"}, "no tool 'fix'"),
        ("estimate", {"model": "net.tflite"}, "estimate needs 'source': a model"),
    ],
)
def test_what_is_refused(folder: Path, name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Tools([folder], writes=False).words(name, values)


def test_only_what_writes_takes_names_of_results() -> None:
    offered = {name: set(names.split()) for name, names in READS.items()}
    for name, names in offered.items():
        assert not [o.name for o in record(name).options if o.writes and o.name in names], name


def test_a_client_asks(folder: Path) -> None:
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    import anyio
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def ask() -> tuple[list[str], Any, Any, Any]:
        server = [sys.executable, "-m", "npuscope", "mcp", str(folder), "--write"]
        start = StdioServerParameters(command=server[0], args=server[1:], env=dict(os.environ))
        async with (
            stdio_client(start) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            about = await session.initialize()
            assert "npuscope predicts" in about.instructions
            names = [tool.name for tool in (await session.list_tools()).tools]
            good = await session.call_tool("estimate", {"source": "net.tflite", "json": True})
            short = await session.call_tool("estimate", {"source": "net.tflite"})
            assert short.content[0].text.startswith("fits")
            assert len(short.content[0].text) < 6100
            bad = await session.call_tool("estimate", {"source": "../secret.tflite"})
            words = {"model": "net.tflite", "output": "fixed.tflite"}
            return names, good, bad, await session.call_tool("fix", words)

    names, good, bad, fixed = anyio.run(ask)
    assert names == [*READS, *WRITES]
    assert json.loads(good.content[0].text)["schema"] == "npuscope/estimate/1"
    assert bad.is_error and "outside of the folders" in bad.content[0].text
    assert not fixed.is_error and (folder / "fixed.tflite").is_file(), fixed.content[0].text
