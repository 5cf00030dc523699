"""Rules for Prometheus in which a minute is a second: what takes hours to fire takes minutes.

Windows, offsets and holds are divided by 60, and so are the limits of figures that grow as
time goes by (how long a run has been silent, a job has waited). All else stays: what is
asked, of which series, and by how much.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

SCALE = 60
RULE_FILES = ("recording.yml", "alerts.yml")
SPAN = re.compile(r"^\d+[mh]$|(?<=\[)\d+[mh](?=\])|(?<=offset )\d+[mh]\b")
"""A whole value, as that of ``for``; a window; an offset."""
GROWING = re.compile(r"(?<=_age_seconds > )\d+|(?<=_age_seconds\) > )\d+|"
                     r"(?<=_wait_seconds > )\d+")  # fmt: skip
AHEAD = re.compile(r"(?<=, )4 \* 3600(?=\))")
"""How far ``predict_linear`` looks ahead."""
SHORTER = {"m": "s", "h": "m"}


def hurried(text: str) -> str:
    """An expression, or a duration."""
    text = SPAN.sub(lambda found: found[0][:-1] + SHORTER[found[0][-1]], text)
    text = GROWING.sub(lambda found: str(int(found[0]) // SCALE), text)
    return AHEAD.sub(f"4 * {3600 // SCALE}", text)


def hurried_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule, with what it asks and how long it waits."""
    return rule | {key: hurried(rule[key]) for key in ("expr", "for") if key in rule}


def hurried_rules(source: Path, target: Path) -> tuple[Path, ...]:
    """The rules that lie in ``source``, in a hurry, in ``target``: their files."""
    written: list[Path] = []
    for name in RULE_FILES:
        read = yaml.safe_load((source / name).read_text())
        groups = [
            {
                **group,
                "interval": "1s",
                "rules": list(map(hurried_rule, group["rules"])),
            }
            for group in read["groups"]
        ]
        written.append(target / name)
        written[-1].write_text(json.dumps({"groups": groups}))  # JSON is YAML
    return tuple(written)
