"""The profile as `pprof` and what understands its format want it: gzipped protocol buffers.

The messages are described here by their fields' names, numbers and types; the numbers are the
format's (profile.proto of github.com/google/pprof).
"""

import gzip
from collections.abc import Mapping
from functools import cache
from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

from hakmem import __version__
from hakmem.insight.profile import Module, Profile, Site, chosen_settings
from hakmem.insight.symbols import Frame, Symbols
from hakmem.insight.views import LIVE, OWN_LIBRARY, PEAK, TIGHT, TOTAL, View
from hakmem.terminal import legible

PACKAGE = "hakmem.pprof"
NANOS = 1_000_000_000
INT64_MOST = (1 << 63) - 1  # what a value can be
# One line per field: number, name, type; + marks a repeated one.
MESSAGES: Mapping[str, str] = {
    "Profile": """
        1 +sample_type ValueType; 2 +sample Sample; 3 +mapping Mapping; 4 +location Location;
        5 +function Function; 6 +string_table string; 7 drop_frames int64; 8 keep_frames int64;
        9 time_nanos int64; 10 duration_nanos int64; 11 period_type ValueType; 12 period int64;
        13 +comment int64; 14 default_sample_type int64; 15 doc_url int64""",
    "ValueType": "1 type int64; 2 unit int64",
    "Sample": "1 +location_id uint64; 2 +value int64; 3 +label Label",
    "Label": "1 key int64; 2 str int64; 3 num int64; 4 num_unit int64",
    "Mapping": """
        1 id uint64; 2 memory_start uint64; 3 memory_limit uint64; 4 file_offset uint64;
        5 filename int64; 6 build_id int64; 7 has_functions bool; 8 has_filenames bool;
        9 has_line_numbers bool; 10 has_inline_frames bool""",
    "Location": """
        1 id uint64; 2 mapping_id uint64; 3 address uint64; 4 +line Line; 5 is_folded bool""",
    "Line": "1 function_id uint64; 2 line int64; 3 column int64",
    "Function": """
        1 id uint64; 2 name int64; 3 system_name int64; 4 filename int64; 5 start_line int64""",
}
# As in Go's heap profiles, which is what tools know.
SAMPLE_TYPES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
)
MOMENTS = (PEAK, TIGHT)  # views that a file has only if it is asked for them
DEFAULTS = {
    LIVE.name: "inuse_space",
    TOTAL.name: "alloc_space",
    PEAK.name: "peak_space",
    TIGHT.name: "tight_space",
}


@cache
def message_class(name: str) -> Any:  # noqa: ANN401
    """A class made at run time: its fields are known by the table above alone."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(
        name="hakmem_pprof.proto", package=PACKAGE, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for line in fields.split(";"):
            _add_field(message, *line.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(message: descriptor_pb2.DescriptorProto, number: str, name: str, kind: str) -> None:
    kinds = descriptor_pb2.FieldDescriptorProto
    one = message.field.add(name=name.lstrip("+"), number=int(number))
    one.label = kinds.LABEL_REPEATED if name.startswith("+") else kinds.LABEL_OPTIONAL
    if kind in MESSAGES:
        one.type = kinds.TYPE_MESSAGE
        one.type_name = f".{PACKAGE}.{kind}"
    else:
        one.type = kinds.Type.Value(f"TYPE_{kind.upper()}")


def pprof(profile: Profile, symbols: Symbols, view: View = LIVE) -> bytes:
    """The file's content; `view` is what tools show first."""
    return gzip.compress(_Writer(profile, symbols, view).message.SerializeToString(), mtime=0)


def provenance(profile: Profile) -> list[str]:
    """Where a profile is from, one fact a line."""
    return [
        f"library: hakmem {profile.version}, command line {__version__}",
        f"command: {profile.command}",
        f"pid: {profile.pid}",
        f"sampling: one block per {profile.interval} bytes on average",
        f"samples: {profile.page.get('samples', 0)}, lost: {profile.page.get('samples_lost', 0)}",
        f"page size: {profile.page.get('page_size', 0)}",
        "settings: " + (chosen_settings(profile) or "as they come"),
    ]


class _Writer:
    def __init__(self, profile: Profile, symbols: Symbols, view: View) -> None:
        self.message = message_class("Profile")()
        self._profile = profile
        self._symbols = symbols
        self._moment = view if view in MOMENTS else None
        self._strings: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[int, int] = {}
        self._mappings: dict[Module, int] = {}
        self._text("")
        self._add_header(view)
        symbols.prepare(address for site in profile.sites for address in site.stack)
        # The first one is the program to who reads this, wherever it lies.
        code = (module for module in profile.modules if module.is_code)
        for module in sorted(code, key=lambda m: m.path != profile.program):
            self._add_mapping(module)
        for site in profile.sites:
            self._add_sample(site)
        self.message.string_table.extend(self._strings)

    def _text(self, text: str) -> int:
        return self._strings.setdefault(legible(text), len(self._strings))

    def _add_header(self, view: View) -> None:
        message, profile = self.message, self._profile
        kinds = list(SAMPLE_TYPES)
        if self._moment:
            name = self._moment.name
            kinds += [(f"{name}_objects", "count"), (f"{name}_space", "bytes")]
        for kind, unit in kinds:
            message.sample_type.add(type=self._text(kind), unit=self._text(unit))
        message.default_sample_type = self._text(DEFAULTS[view.name])
        message.period_type.type = self._text("space")
        message.period_type.unit = self._text("bytes")
        message.period = profile.interval
        message.time_nanos = int(profile.taken_at * NANOS)
        message.duration_nanos = profile.age_ms * (NANOS // 1000)
        message.comment.extend(self._text(line) for line in provenance(profile))

    def _add_mapping(self, module: Module) -> None:
        number = len(self._mappings) + 1
        self._mappings[module] = number
        self.message.mapping.add(
            id=number,
            memory_start=module.start,
            memory_limit=module.end,
            file_offset=module.offset,
            filename=self._text(module.path),
            build_id=self._text(module.build_id),
            has_functions=True,
            has_filenames=True,
            has_line_numbers=True,
            has_inline_frames=True,
        )

    def _add_sample(self, site: Site) -> None:
        values = [site.total_objects, site.total_bytes, site.live_objects, site.live_bytes]
        if self._moment:
            values += [self._moment.objects_of(site), self._moment.bytes_of(site)]
        addresses = [address for address in site.stack if not self._is_own(address)]
        self.message.sample.add(
            location_id=[self._location(address) for address in addresses or site.stack],
            value=[min(round(value), INT64_MOST) for value in values],
        )

    def _is_own(self, address: int) -> bool:
        module = self._symbols.module_at(address - 1)
        return module is not None and module.name.startswith(OWN_LIBRARY)

    def _location(self, address: int) -> int:
        if address in self._locations:
            return self._locations[address]
        number = self._locations[address] = len(self._locations) + 1
        module = self._symbols.module_of(address)
        location = self.message.location.add(
            id=number, mapping_id=self._mappings.get(module, 0) if module else 0, address=address
        )
        for frame in self._symbols.frames(address):
            location.line.add(function_id=self._function(frame), line=frame.line)
        return number

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.file)
        if key not in self._functions:
            self._functions[key] = len(self._functions) + 1
            self.message.function.add(
                id=self._functions[key],
                name=self._text(frame.function),
                system_name=self._text(frame.function),
                filename=self._text(frame.file),
            )
        return self._functions[key]
