"""A scenario as a file, which reading gives back.

Rule: what is as always is not said.
"""

from typing import Any

import msgspec

from actors.faults.scenario import Scenario, Step
from actors.faults.vocabulary import as_table


def scenario_toml(scenario: Scenario) -> str:
    """The text of its file."""
    plain = {
        "name": scenario.name,
        "about": scenario.about,
        "brokers": scenario.brokers,
        "seed": scenario.seed,
        "session_timeout_ms": scenario.session_timeout_ms,
    }
    if scenario.controller is not None:
        plain["controller"] = scenario.controller
    if not scenario.topics:
        plain["topics"] = []
    lines = [f"{key} = {_toml(value)}" for key, value in plain.items()]
    lines.append(f"worlds = {_toml(list(scenario.worlds))}")
    lines += ["", "[overrides]"]
    lines += [f"{_toml(key)} = {_toml(value)}" for key, value in scenario.overrides.items()]
    for topic in scenario.topics:
        lines += ["", "[[topics]]", *_assignments(msgspec.to_builtins(topic))]
    lines += ["", "[load]", *_assignments(msgspec.to_builtins(scenario.load))]
    for step in scenario.steps:
        lines += ["", "[[steps]]"]
        given = {name: getattr(step, name) for name in Step.__struct_fields__}
        defaults = {each.name: each.default for each in msgspec.structs.fields(Step)}
        for name, value in given.items():
            if value != defaults[name]:
                table = as_table(value) if hasattr(value, "is_local") else _plain(value)
                lines.append(f"{name} = {_toml(table)}")
    expect = {k: v for k, v in msgspec.to_builtins(scenario.expect).items() if v}
    if expect:
        lines += ["", "[expect]", *_assignments(expect)]
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    plain = msgspec.to_builtins(value)
    if isinstance(plain, dict):
        return {key: each for key, each in plain.items() if each is not None}
    return plain


def _assignments(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        pairs = (f"{_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    return repr(value)


def _key(key: str) -> str:
    return key if key.isascii() and key.replace("_", "").isalnum() else _toml(key)
