"""What `hakmem doctor` has to say, thing by thing."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from hakmem.insight.library_settings import Setting

Verdict = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """`text` says what is so and what it means, `remedy` what to change, if anything."""

    topic: str
    verdict: Verdict
    text: str
    remedy: str = ""


@dataclass
class Report:
    """`active`: whether hakmem serves, or would serve, the target; None: there is no target."""

    target: str
    active: bool | None = None
    version: str = ""
    findings: list[Finding] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)

    def ok(self, topic: str, text: str) -> None:
        self.findings.append(Finding(topic, "ok", text))

    def note(self, topic: str, text: str, remedy: str = "") -> None:
        self.findings.append(Finding(topic, "note", text, remedy))

    def problem(self, topic: str, text: str, remedy: str) -> None:
        self.findings.append(Finding(topic, "problem", text, remedy))

    def as_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "active": self.active,
            "version": self.version,
            "findings": [asdict(finding) for finding in self.findings],
            "settings": [asdict(setting) for setting in self.settings],
        }
