"""``deploy/compose.yml`` and the files for logs: whole, and about files that are there."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor.core.text.log_level import LogLevel
from supervisor.host.service.journal import journal_fields
from supervisor.wire.paths import StatePaths

Node = dict[str, Any]


@pytest.fixture
def compose(root: Path) -> Node:
    """The file."""
    loaded: Node = yaml.safe_load((root / "deploy" / "compose.yml").read_text())
    return loaded


def test_compose_keeps_the_schema(root: Path) -> None:
    """By the Compose specification's own schema."""
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent))
    assert program is not None
    file = root / "deploy" / "compose.yml"
    subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", str(file)], check=True
    )


def test_what_is_mounted_is_there(root: Path, compose: Node) -> None:
    """Each file that a container is given exists, and is given read-only; each volume is
    declared; each image has a version; and nothing listens on the network."""
    for service in compose["services"].values():
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        for volume in service["volumes"]:
            source, _, mode = volume.partition(":")
            if source.startswith("."):
                assert (root / "deploy" / source).exists(), source
                assert mode.endswith(":ro")
            else:
                assert source in compose["volumes"]
        for argument in service.get("command", ()):
            if "listen-address" in argument:
                assert argument.endswith("=") or "=127.0.0.1:" in argument


def test_grafana_finds_what_it_is_given(root: Path, compose: Node) -> None:
    """Dashboards lie where the provisioning looks, and the data source is the Prometheus
    of the same file."""
    where = root / "grafana" / "provisioning"
    dashboards = yaml.safe_load((where / "dashboards" / "trainwarden.yml").read_text())
    path = dashboards["providers"][0]["options"]["path"]
    grafana = compose["services"]["grafana"]
    assert any(f":{path}:" in volume for volume in grafana["volumes"])
    sources = yaml.safe_load((where / "datasources" / "trainwarden.yml").read_text())
    address = sources["datasources"][0]["url"].removeprefix("http://")
    asked = compose["services"]["prometheus"]["command"]
    assert f"--web.listen-address={address}" in asked


def test_grafana_knows_how_often_boxes_are_asked(root: Path) -> None:
    """Panels of rates choose their windows by it."""
    where = root / "grafana" / "provisioning" / "datasources" / "trainwarden.yml"
    (source,) = yaml.safe_load(where.read_text())["datasources"]
    asked = yaml.safe_load(
        (root / "deploy" / "prometheus" / "prometheus.yml").read_text()
    )
    assert source["jsonData"]["timeInterval"] == asked["global"]["scrape_interval"]


def test_logs_are_where_vector_looks(root: Path) -> None:
    """The example reads the units that there are, and the files that attempts write; the
    fields that it takes from the journal are those that the documents name."""
    config = yaml.safe_load((root / "deploy" / "logs" / "vector.yaml").read_text())
    for unit in config["sources"]["daemon"]["include_units"]:
        assert (root / "deploy" / "systemd" / unit).exists()
    daemon = tomllib.loads(
        (root / "deploy" / "systemd" / "trainwarden.toml").read_text()
    )
    state = daemon.get("state_dir", "/var/lib/trainwarden")
    regex = re.search(r"r'([^']+)'", config["transforms"]["of_jobs"]["source"])
    assert regex is not None
    for place in ("users/alice", "digits", ""):
        run = StatePaths(Path(state, place)).run("digits", 1)
        log = run.attempt(2).output
        patterns = config["sources"]["output"]["include"]
        assert [one for one in patterns if log.match(one)], log
        found = re.search(regex[1], str(log))
        assert found is not None
        told = found["job"], int(found["run"]), int(found["attempt"])
        assert told == ("digits", 1, 2)
    for name, transform in config["transforms"].items():
        assert set(transform["inputs"]) <= set(config["sources"]), name
    assert set(config["sinks"]["loki"]["inputs"]) == set(config["transforms"])


def test_the_journal_has_the_documented_fields(root: Path) -> None:
    """What is sent is what the table of the document says, no more and no less."""
    document = (root / "deploy" / "README.md").read_text()
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", document, re.MULTILINE))
    sent = set(journal_fields("text", "digits", LogLevel.WARNING))
    assert sent == documented
