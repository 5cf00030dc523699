"""A linter of rule files: the checks of Cloudflare's pint that need no server of one's own,
and those that mixtool makes of alerts. ``reference`` says which there are, and what of the
rest is looked at elsewhere.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from grafana.lint import promql
from grafana.lint.complaint import Complaint, KnownSeries, Node

SCRAPE_SECONDS = 15
RETENTION_SECONDS = 15 * 86400
"""Prometheus' default."""
LONGEST_INTERVAL_SECONDS = 300
EXPERIMENTAL = ("double_exponential_smoothing", "info", "limitk", "limit_ratio",
                "mad_over_time", "sort_by_label")  # fmt: skip
GAUGES_ONLY = ("delta", "deriv", "idelta", "predict_linear")
PASSES_COUNTERS = (*promql.RATES, "absent", "changes", "count", "resets")
TEMPLATE = re.compile(r"\{\{.+?\}\}")
TEMPLATED_LABEL = re.compile(r"\$labels\.(\w+)")
ALERT_NAME = re.compile(r"([A-Z]+[a-z0-9]+)+")
RECORD_NAME = re.compile(r"instance(_[a-z]+)*:trainwarden_\w+:\w+")
SENTENCE = re.compile(r"([A-Z]|\{\{).+\.", re.DOTALL)
ALWAYS_THERE = frozenset({"instance", "job", "severity"})
RAW_COUNTERS = {
    "instance_run:trainwarden_goodput:ratio_rate5m": "whether it counts steps"
}
"""Rules that look at a counter as it is, and at what."""
NO_LABELS = {"TrainwardenExporterAbsent": "it is about what is not there"}
"""Alerts that have nothing to put into a sentence."""

Check = Callable[[Node, KnownSeries], Iterator[str]]


def name_of(rule: Node) -> str:
    """Of an alert, or of what is recorded."""
    return str(rule.get("alert", rule.get("record", "")))


def annotations(rule: Node) -> Mapping[str, str]:
    """What whoever is told reads."""
    found: Mapping[str, str] = rule.get("annotations", {})
    return found


def annotation_is_there(rule: Node, known: KnownSeries) -> Iterator[str]:
    """A sentence, its story, and where it is seen."""
    told = annotations(rule)
    for name in ("summary", "description", "runbook_url"):
        if not told.get(name):
            yield f"no {name}"
    uid, panel = told.get("__dashboardUid__", ""), told.get("__panelId__", "")
    if int(panel or 0) not in known.panels.get(uid, frozenset()):
        yield f"no panel {panel!r} of a dashboard {uid!r}"


def link_leads_somewhere(rule: Node, known: KnownSeries) -> Iterator[str]:
    """An absolute address, of a page that is there."""
    url = annotations(rule).get("runbook_url", "")
    page = url.rpartition("/")[2].removesuffix(".md")
    if not re.match(r"https?://\S+\.md$", url) or page not in known.runbooks:
        yield f"{url!r} leads nowhere"


def comparison(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """Whatever an alert's expression returns, fires."""
    expr = promql.without_strings(rule["expr"])
    if not promql.COMPARISON.search(re.sub(r"\{[^}]*\}", "", expr)) and (
        "absent(" not in expr
    ):
        yield "it compares with nothing"


def held_seconds(rule: Node) -> int:
    """How long it has to hold; 0 also of what is no duration."""
    try:
        return promql.seconds(rule.get("for", "0m"))
    except ValueError:
        return 0


def absent_waits(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """After a restart of Prometheus everything is absent."""
    if "absent(" in rule["expr"] and held_seconds(rule) < 2 * SCRAPE_SECONDS:
        yield "absent() without a `for` of two scrapes"


def hold_is_one(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """A duration that is one, and not the default."""
    if "for" in rule and held_seconds(rule) == 0:
        yield f"{rule['for']!r} is the default, or no duration"


def templates(rule: Node, known: KnownSeries) -> Iterator[str]:
    """Labels that the alert has; no value in what tells alerts apart."""
    for text in rule.get("labels", {}).values():
        if "$value" in text or ".Value" in text:
            yield "a value in a label: a new alert each time"
    has = labels_of(rule["expr"], known)
    for name, text in annotations(rule).items():
        for label in set(TEMPLATED_LABEL.findall(text)) - has - ALWAYS_THERE:
            yield f"{name} names the label {label}, which it does not have"


def labels_of(expr: str, known: KnownSeries) -> frozenset[str]:
    """The labels that each of its answers has."""
    either = re.split(r"\bor\b", promql.without_strings(expr))
    return frozenset[str].intersection(*(_labels_of(one, known) for one in either))


def _labels_of(expr: str, known: KnownSeries) -> frozenset[str]:
    said = [promql.labels(found) for _, found in promql.BY.findall(expr)]
    if said and not promql.ON.search(expr):
        return frozenset[str].intersection(*said)
    asked = [known.labels.get(one, frozenset[str]()) for one in promql.series(expr)]
    recorded = [
        frozenset(one.partition(":")[0].split("_"))
        for one in promql.series(expr)
        if ":" in one
    ]
    return frozenset[str]().union(*said, *asked, *recorded)


def keeps_the_box(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """Equal names on two boxes are two."""
    for call in promql.calls(rule["expr"], promql.AGGREGATIONS):
        if call.by is None or "instance" not in call.by:
            yield f"{call.name} takes boxes together"
    for labels in promql.ON.findall(rule["expr"]):
        if "instance" not in promql.labels(labels):
            yield f"on ({labels}) takes boxes together"


def counters_are_rated(rule: Node, known: KnownSeries) -> Iterator[str]:
    """How high a counter is says how long it has been there."""
    expr = rule["expr"]
    for call in promql.calls(expr, PASSES_COUNTERS):
        expr = expr.replace(call.inner, "")
    raw = promql.series(expr) & known.counters
    if raw and name_of(rule) not in RAW_COUNTERS:
        yield f"{sorted(raw)} without rate()"


def not_fragile(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """No other series with each look; no quotient that a restart makes wrong."""
    for call in promql.calls(rule["expr"], ("topk", "bottomk")):
        yield f"{call.name} gives other series each time"
    if "for" not in rule and re.search(r"\)\s*/\s*(sum|avg)\b", rule["expr"]):
        yield "a quotient of aggregations without `for`"


def possible(rule: Node, known: KnownSeries) -> Iterator[str]:
    """Joins and aggregations by labels that are still there."""
    everywhere = frozenset[str]().union(ALWAYS_THERE, *known.labels.values())
    for kind, found in promql.BY.findall(rule["expr"]):
        for label in promql.labels(found) - everywhere:
            yield f"{kind} ({label}): nothing has that label"
    for call in promql.calls(rule["expr"], promql.AGGREGATIONS):
        for inner in promql.calls(call.inner, promql.AGGREGATIONS):
            for label in (call.by or frozenset()) - (inner.by or frozenset()):
                yield f"{label} is gone after {inner.name}"


def no_nan_in_sums(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """One quotient by 0 makes the whole sum NaN."""
    for call in promql.calls(rule["expr"], ("avg", "stddev", "stdvar", "sum")):
        if re.search(r"[/%]", promql.without_strings(call.inner)):
            yield f"a quotient inside {call.name}"


def within_retention(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """What Prometheus still has."""
    for span in promql.spans(rule["expr"]):
        if promql.seconds(span) > RETENTION_SECONDS:
            yield f"{span} is longer than data are kept"


def rates_are_sound(rule: Node, known: KnownSeries) -> Iterator[str]:
    """Of counters, over four scrapes; a trend of gauges."""
    for call in promql.calls(rule["expr"], promql.RATES):
        for name in promql.series(call.inner) - known.counters:
            yield f"{call.name} of {name}, which is no counter"
        for span in promql.spans(call.inner):
            if promql.seconds(span) < 4 * SCRAPE_SECONDS:
                yield f"{call.name} over {span}"
    for call in promql.calls(rule["expr"], GAUGES_ONLY):
        for name in promql.series(call.inner) & known.counters:
            yield f"{call.name} of the counter {name}"


def regexps_are_needed(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """Prometheus anchors them itself; what has no pattern is compared."""
    for label, operator, value in promql.MATCHER.findall(rule["expr"]):
        if operator in {"=~", "!~"} and not re.search(r"[|.*+?\[\](){}\\]", value):
            yield f'{label}{operator}"{value}" is no pattern'
        if operator in {"=~", "!~"} and re.search(r"^\^|\$$", value):
            yield f'{label}{operator}"{value}" is anchored anyway'


def series_exist(rule: Node, known: KnownSeries) -> Iterator[str]:
    """Exported or recorded; with the labels that are asked for."""
    for name in promql.series(rule["expr"]) - {"up", "ALERTS"}:
        if name not in known.labels and name not in known.recorded:
            yield f"nothing exports {name}"
    for name, matchers in promql.SELECTOR.findall(rule["expr"]):
        has = known.labels.get(name)
        for label, _, _ in promql.MATCHER.findall(matchers) if has else ():
            if label not in (has or ()) and label not in ALWAYS_THERE:
                yield f"{name} has no label {label}"


def no_experiments(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """Functions behind a feature flag."""
    for call in promql.calls(rule["expr"], EXPERIMENTAL):
        yield f"{call.name} is experimental"


def severity(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """Who is woken."""
    found = rule.get("labels", {}).get("severity")
    if found not in {"critical", "warning", "info"}:
        yield f"severity {found!r}"


def alert_is_named(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """In camel case, and as one of ours."""
    if not (ALERT_NAME.fullmatch(rule["alert"]) and rule["alert"].startswith("Train")):
        yield "not in camel case, or not TrainwardenSomething"


def record_is_named(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """``level:metric:operations``, the level being the labels that are left."""
    if not RECORD_NAME.fullmatch(rule["record"]):
        yield "not level:metric:operations"


def no_choice_recorded(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """The largest of now are others in a minute."""
    for call in promql.calls(rule["expr"], ("topk", "bottomk")):
        yield f"{call.name} in a recording rule"


def description_is_of_this(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """It names what it is about."""
    told = annotations(rule).get("description", "")
    if not TEMPLATE.search(told) and rule["alert"] not in NO_LABELS:
        yield "the description names no box and no run"


def summary_is_a_sentence(rule: Node, _known: KnownSeries) -> Iterator[str]:
    """With a capital letter, or a name; and an end."""
    if not SENTENCE.fullmatch(annotations(rule).get("summary", "")):
        yield "the summary is no sentence"


OF_ANY: Mapping[str, Check] = {
    "promql/aggregate": keeps_the_box,
    "promql/counter": counters_are_rated,
    "promql/features": no_experiments,
    "promql/impossible": possible,
    "promql/nan": no_nan_in_sums,
    "promql/range_query": within_retention,
    "promql/rate": rates_are_sound,
    "promql/regexp": regexps_are_needed,
    "promql/series": series_exist,
}
OF_ALERTS: Mapping[str, Check] = {
    "alerts/absent": absent_waits,
    "alerts/annotation": annotation_is_there,
    "alerts/comparison": comparison,
    "alerts/for": hold_is_one,
    "alerts/template": templates,
    "promql/fragile": not_fragile,
    "rule/label": severity,
    "rule/link": link_leads_somewhere,
    "alert-name-camelcase": alert_is_named,
    "alert-description-templating": description_is_of_this,
    "alert-summary-style": summary_is_a_sentence,
}
OF_RECORDED: Mapping[str, Check] = {
    "rule/name": record_is_named,
    "rule/topk": no_choice_recorded,
}


def of_rule(rule: Node, known: KnownSeries) -> Iterator[Complaint]:
    """What is wrong with one rule."""
    own = OF_ALERTS if "alert" in rule else OF_RECORDED
    for check, ask in {**OF_ANY, **own}.items():
        for what in ask(rule, known):
            yield Complaint(check, name_of(rule), what)


def of_groups(groups: list[Node], known: KnownSeries) -> Iterator[Complaint]:
    """What is wrong with rules, one by one and side by side."""
    rules = [rule for group in groups for rule in group["rules"]]
    for group in groups:
        if promql.seconds(group.get("interval", "15s")) > LONGEST_INTERVAL_SECONDS:
            yield Complaint("group/interval", group["name"], "evaluated too rarely")
    for rule in rules:
        yield from of_rule(rule, known)
    yield from twice(rules)
    yield from worked_out_again(rules)
    yield from unused(rules, known)


def twice(rules: list[Node]) -> Iterator[Complaint]:
    """Rules that are there twice."""
    seen: set[str] = set()
    for rule in rules:
        if name_of(rule) in seen:
            yield Complaint("rule/duplicate", name_of(rule), "is there twice")
        seen.add(name_of(rule))


def worked_out_again(rules: list[Node]) -> Iterator[Complaint]:
    """What a rule has recorded, another asks for anew."""
    for one in rules:
        recorded = " ".join(one["expr"].split())
        for rule in rules if "record" in one else ():
            if rule is not one and recorded in " ".join(rule["expr"].split()):
                yield Complaint("promql/performance", name_of(rule), name_of(one))


def unused(rules: list[Node], known: KnownSeries) -> Iterator[Complaint]:
    """What is asked for and recorded by nobody."""
    there = {rule["record"] for rule in rules if "record" in rule}
    for rule in rules:
        asked = {name for name in promql.series(rule["expr"]) if ":" in name}
        for name in (asked & known.recorded) - there:
            yield Complaint("rule/dependency", name_of(rule), f"{name} is gone")
