"""Finds the fast path of a function in a shared library, from objdump's disassembly of it.

A path is a way from a function's entry to its return that makes no call, does not leave the
function and passes no basic block twice. Which of them the program takes is known only at run
time, so the longest one counts: no execution without a call or a loop can be longer.
"""

import os
import platform
import re
import subprocess
from dataclasses import dataclass

PREFIXES = {"bnd", "notrack", "lock", "rep", "repz", "repnz", "data16", "cs", "ds", "es"}
RETURNS = {"ret", "retq"}
DEAD_ENDS = {"ud2", "hlt", "int3", "brk", "udf"}
LINE = re.compile(r"^\s*([0-9a-f]+):\t(.+)$")
MEMORY_OPERAND = re.compile(r"(^|,)(%[c-gs]s:)?(-?0x[0-9a-f]+)?(\([^)]*\))?$")
READ_ONLY = ("cmp", "test", "lea", "push", "j", "call", "bt", "prefetch")
DIRECT_TARGET = re.compile(r"^([0-9a-f]+)\b")
ARM_TARGET = re.compile(r"(?:^|, )([0-9a-f]+) <")
ARM_BRANCHES = ("b.", "cbz", "cbnz", "tbz", "tbnz")


@dataclass(frozen=True)
class Instruction:
    address: int
    mnemonic: str
    operands: str

    @property
    def is_call(self) -> bool:
        return self.mnemonic.startswith("call")

    @property
    def is_jump(self) -> bool:
        return self.mnemonic.startswith("jmp")

    @property
    def is_branch(self) -> bool:
        """A conditional jump (jrcxz and loop are conditional as well)."""
        return self.mnemonic.startswith(("j", "loop")) and not self.is_jump

    @property
    def is_padding(self) -> bool:
        """Takes no work: the landing pad of indirect calls, and alignment."""
        return self.mnemonic.startswith(("endbr", "nop")) or (
            self.mnemonic == "xchg" and self.operands == "%ax,%ax"
        )

    @property
    def is_store(self) -> bool:
        """Writes to memory: in AT&T syntax the last operand is the destination."""
        if self.mnemonic.startswith(READ_ONLY) or not self.operands:
            return False
        destination = MEMORY_OPERAND.search(self.operands)
        return destination is not None and destination[0].strip(",") != ""

    @property
    def target(self) -> int | None:
        match = DIRECT_TARGET.match(self.operands)
        return int(match[1], 16) if match else None


class ArmInstruction(Instruction):
    """The same of a 64-bit ARM."""

    @property
    def is_call(self) -> bool:
        return self.mnemonic in ("bl", "blr")

    @property
    def is_jump(self) -> bool:
        return self.mnemonic in ("b", "br")

    @property
    def is_branch(self) -> bool:
        return self.mnemonic.startswith(ARM_BRANCHES)

    @property
    def is_padding(self) -> bool:
        return self.mnemonic in ("nop", "bti")

    @property
    def is_store(self) -> bool:
        return self.mnemonic.startswith("st")

    @property
    def target(self) -> int | None:
        match = ARM_TARGET.search(self.operands)
        return int(match[1], 16) if match else None


@dataclass(frozen=True)
class Machine:
    """How its code is read: the name of its GNU tools elsewhere, where a comment begins."""

    name: str
    instruction: type[Instruction]
    comment: str

    def tool(self, name: str) -> str:
        return name if platform.machine() == self.name else f"{self.name}-linux-gnu-{name}"


MACHINES = {
    "Advanced Micro Devices X86-64": Machine("x86_64", Instruction, "#"),
    "AArch64": Machine("aarch64", ArmInstruction, "//"),
}
X86 = MACHINES["Advanced Micro Devices X86-64"]


@dataclass(frozen=True)
class FastPath:
    mnemonics: list[str]
    branches: int
    stores: int

    @property
    def instructions(self) -> int:
        return len(self.mnemonics)


def run_tool(*command: str) -> str:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def machine_of(library: str) -> Machine | None:
    """Which machine the library is made for; None if its code cannot be read here."""
    header = run_tool("readelf", "--file-header", library)
    name = re.search(r"Machine:\s+(.+?)\s*$", header, re.MULTILINE)
    return MACHINES.get(name[1]) if name else None


def symbol_ranges(library: str) -> dict[str, tuple[int, int]]:
    """Start and end of every function that the library exports, aliases included."""
    ranges = {}
    for line in run_tool("nm", "-D", "-S", "--defined-only", library).splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "TtWi":
            start = int(fields[0], 16)
            ranges[fields[3].split("@")[0]] = (start, start + int(fields[1], 16))
    return ranges


def parse_instruction(text: str, address: int, machine: Machine) -> Instruction:
    words = text.split(machine.comment)[0].split()
    while len(words) > 1 and words[0] in PREFIXES:
        words = words[1:]
    return machine.instruction(address, words[0], " ".join(words[1:]))


def disassemble(library: str, start: int, end: int, machine: Machine) -> list[Instruction]:
    text = run_tool(
        machine.tool("objdump"),
        "--disassemble",
        "--no-show-raw-insn",
        "--wide",
        f"--start-address={start:#x}",
        f"--stop-address={end:#x}",
        library,
    )
    return parse_listing(text, machine)


def parse_listing(text: str, machine: Machine = X86) -> list[Instruction]:
    matches = (LINE.match(line) for line in text.splitlines())
    return [parse_instruction(match[2], int(match[1], 16), machine) for match in matches if match]


def successors(code: list[Instruction], index: int, position: dict[int, int]) -> list[int]:
    """Where execution can go on inside the function without a call; empty for a dead end."""
    instruction = code[index]
    if instruction.is_call or instruction.mnemonic in DEAD_ENDS | RETURNS:
        return []
    following = []
    if not instruction.is_jump and index + 1 < len(code):
        following.append(index + 1)
    if instruction.is_jump or instruction.is_branch:
        target = position.get(instruction.target) if instruction.target is not None else None
        if target is not None:
            following.append(target)
    return following


def weight(instruction: Instruction) -> tuple[int, int]:
    """What the instruction adds to a path's count of instructions and of branches."""
    return (0, 0) if instruction.is_padding else (1, int(instruction.is_branch))


def visit_order(following: list[list[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """All reachable positions, successors first, and the jumps that go back to an earlier one.

    A compiler's loops are entered at their head alone, so a path that took a jump back would pass
    the head twice; without these jumps the rest is free of circles.
    """
    order: list[int] = []
    backward: set[tuple[int, int]] = set()
    seen, open_positions = {0}, {0}
    stack = [(0, iter(following[0]))]
    while stack:
        index, remaining = stack[-1]
        target = next(remaining, None)
        if target is None:
            stack.pop()
            open_positions.discard(index)
            order.append(index)
        elif target in open_positions:
            backward.add((index, target))
        elif target not in seen:
            seen.add(target)
            open_positions.add(target)
            stack.append((target, iter(following[target])))
    return order, backward


def longest_path(code: list[Instruction]) -> list[Instruction]:
    """The longest way from the first instruction to a return; empty if there is none."""
    position = {instruction.address: index for index, instruction in enumerate(code)}
    following = [successors(code, index, position) for index in range(len(code))]
    order, backward = visit_order(following)
    best: dict[int, tuple[tuple[int, int], int | None]] = {}
    for index in order:
        onward = [
            (best[target][0], target)
            for target in following[index]
            if target in best and (index, target) not in backward
        ]
        if not onward and code[index].mnemonic not in RETURNS:
            continue
        (instructions, branches), target = max(onward, default=((0, 0), None))
        own_instructions, own_branches = weight(code[index])
        best[index] = ((instructions + own_instructions, branches + own_branches), target)
    path, at = [], 0 if 0 in best else None
    while at is not None:
        path.append(code[at])
        at = best[at][1]
    return path


def fast_path(code: list[Instruction]) -> FastPath | None:
    """The longest path, or None where every way to a return makes a call or leaves the function."""
    counted = [instruction for instruction in longest_path(code) if not instruction.is_padding]
    if not counted:
        return None
    return FastPath(
        mnemonics=[instruction.mnemonic for instruction in counted],
        branches=sum(instruction.is_branch for instruction in counted),
        stores=sum(instruction.is_store for instruction in counted),
    )
