"""Kafka's MBeans as Prometheus knows them.

Rule: a name is made from the MBean's by the rules that Kafka dashboards expect of the JMX exporter,
in lower case: `kafka.server:type=TYPE,name=NAME,key=of` is `kafka_server_type_name{key="of"}`; of
NAMEPerSec the Count is the counter `…_name_total`; of a histogram the Count is `…_count` and each
percentile a sample with a `quantile`. `broker` is one label more: one address answers for all.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder

from wire.observation import Metric

PER_SECOND: Final = "PerSec"
VALUE: Final = "Value"
COUNT: Final = "Count"
PERCENTILE: Final = "thPercentile"


class Snapshot:
    """A collector of what was read just before."""

    def __init__(self, metrics: Mapping[int, tuple[Metric, ...]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        """Families in the order of their names, each once."""
        families: dict[str, Family] = {}
        for broker, of_broker in sorted(self._metrics.items()):
            for metric in of_broker:
                _add(families, broker, metric)
        for name in sorted(families):
            yield families[name]


def exposition(metrics: Mapping[int, tuple[Metric, ...]], accept: str) -> tuple[bytes, str]:
    """The metrics in the form that was asked for, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot(metrics))  # it is a collector by its shape
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def _add(families: dict[str, Family], broker: int, metric: Metric) -> None:
    domain, _, rest = metric.mbean.partition(":")
    properties = dict(part.split("=", 1) for part in rest.split(","))
    kind, name = properties.pop("type"), properties.pop("name")
    labels = {"broker": str(broker), **{key.lower(): of for key, of in properties.items()}}
    is_rate = name.endswith(PER_SECOND)
    full = f"{domain.replace('.', '_')}_{kind}_{name.removesuffix(PER_SECOND)}".lower()
    for attribute, value in metric.attributes:
        if attribute == COUNT:
            _counter(families, full if is_rate else f"{full}_count", metric.mbean, labels, value)
        elif attribute == VALUE:
            _gauge(families, full, metric.mbean, labels, value)
        elif attribute.endswith(PERCENTILE):
            part = attribute.removesuffix(PERCENTILE)
            _gauge(families, full, metric.mbean, {**labels, "quantile": f"0.{part}"}, value)


def _gauge(
    families: dict[str, Family], name: str, mbean: str, labels: dict[str, str], value: float
) -> None:
    if name not in families:
        families[name] = GaugeMetricFamily(name, _help(mbean))
    families[name].add_sample(name, labels, value)


def _counter(
    families: dict[str, Family], name: str, mbean: str, labels: dict[str, str], value: float
) -> None:
    """A counter's name ends in _total; the count of a histogram keeps its own name, untyped."""
    if name.endswith("_count"):
        families.setdefault(name, Family(name, _help(mbean), "unknown"))
        families[name].add_sample(name, labels, value)
        return
    if name not in families:
        families[name] = CounterMetricFamily(name, _help(mbean))
    families[name].add_sample(f"{name}_total", labels, value)


def _help(mbean: str) -> str:
    kind, _, _ = mbean.partition(",request=")
    return kind
