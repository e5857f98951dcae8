"""Tests of the path counter itself, on listings as objdump prints them."""

import unittest

from fast_path import MACHINES, X86, FastPath, Machine, fast_path, parse_listing

ARM = MACHINES["AArch64"]


def measure(*lines: str, machine: Machine = X86) -> FastPath | None:
    """Takes instructions at the addresses 0x10, 0x14, 0x18, ..."""
    listing = "\n".join(f"    {0x10 + 4 * i:x}:\t{line}" for i, line in enumerate(lines))
    return fast_path(parse_listing(listing, machine))


class FastPathTest(unittest.TestCase):
    def expect(self, path: FastPath | None, mnemonics: str, branches: int) -> None:
        self.assertIsNotNone(path)
        self.assertEqual((path.mnemonics, path.branches), (mnemonics.split(), branches))

    def test_straight_code(self) -> None:
        self.expect(measure("mov    %rdi,%rax", "ret"), "mov ret", 0)

    def test_padding_and_landing_pad_do_not_count(self) -> None:
        path = measure("endbr64", "nopw   0x0(%rax,%rax,1)", "data16 cs nopw 0x0(%rax)", "ret")
        self.expect(path, "ret", 0)
        self.expect(measure("xchg   %ax,%ax", "xchg   %rax,%rdx", "ret"), "xchg ret", 0)

    def test_prefix_is_not_the_mnemonic(self) -> None:
        self.expect(measure("rep stos %al,%es:(%rdi)", "bnd ret"), "stos ret", 0)

    def test_slow_path_with_call_is_left_out(self) -> None:
        path = measure(
            "test   %rax,%rax",
            "je     20 <f+0x10>",
            "pop    %rax",
            "ret",
            "call   900 <slow>",
            "ret",
        )
        self.expect(path, "test je pop ret", 1)

    def test_hot_continuation_behind_a_taken_branch(self) -> None:
        path = measure(
            "test   %rax,%rax",
            "jne    1c <f+0xc>",
            "jmp    900 <slow>",
            "mov    (%rax),%rdx",
            "ret",
        )
        self.expect(path, "test jne mov ret", 1)

    def test_longest_of_several_returns(self) -> None:
        path = measure("je     18 <f+0x8>", "ret", "inc    %rax", "inc    %rax", "ret")
        self.expect(path, "je inc inc ret", 1)

    def test_jump_inside_the_function_is_followed(self) -> None:
        path = measure("jmp    18 <f+0x8>", "ud2", "ret")
        self.expect(path, "jmp ret", 0)

    def test_loop_counts_once(self) -> None:
        path = measure("inc    %rax", "dec    %rdi", "jne    10 <f>", "ret")
        self.expect(path, "inc dec jne ret", 1)

    def test_no_way_without_leaving(self) -> None:
        self.assertIsNone(measure("test   %rdi,%rdi", "jmp    900 <slow>"))
        self.assertIsNone(measure("call   900 <slow>", "ret"))
        self.assertIsNone(measure("jmp    *0x10(%rax)", "ret"))
        self.assertIsNone(measure("je     900 <slow>", "jmp    10 <f>"))

    def test_conditional_jump_out_of_the_function_is_a_slow_path(self) -> None:
        self.expect(measure("je     900 <slow>", "mov    %rdi,%rax", "ret"), "je mov ret", 1)

    def test_comment_of_a_relative_address_is_no_operand(self) -> None:
        path = measure("mov    0x2e5(%rip),%rax        # 4010 <table>", "ret")
        self.expect(path, "mov ret", 0)

    def test_stores_are_told_from_loads(self) -> None:
        stores = (
            "mov    %rax,0x8(%rdi)",
            "mov    %rax,(%rdi,%rcx,8)",
            "incl   0x4(%rdx)",
            "movq   $0x0,%fs:0x10",
            "mov    %rax,%fs:(%rdx)",
            "addl   $0x1,-0x8(%rbx)",
        )
        others = (
            "mov    0x8(%rdi),%rax",
            "cmp    %rax,0x8(%rdi)",
            "lea    0x8(%rdi),%rax",
            "mov    %fs:0x10,%rax",
            "shr    $0x10,%rax",
            "test   %al,(%rdi)",
            "inc    %rax",
            "push   0x8(%rbx)",
            "mov    $0x10,%eax",
            "prefetcht0 (%rdi)",
        )
        self.assertEqual(measure(*stores, "ret").stores, len(stores))
        self.assertEqual(measure(*others, "ret").stores, 0)

    def test_arm(self) -> None:
        path = measure(
            "bti    c",
            "cbz    x0, 28 <f+0x18>",
            "tbnz   x1, #63, 28 <f+0x18>",
            "b.ls   28 <f+0x18>  // b.plast",
            "str    x0, [x1, #-8]!",
            "ret",
            "bl     900 <slow>",
            "ret",
            machine=ARM,
        )
        self.expect(path, "cbz tbnz b.ls str ret", 3)
        self.assertEqual(path.stores, 1)
        self.assertIsNone(measure("ldr    x16, [x16, #8]", "br     x16", machine=ARM))
        self.assertIsNone(measure("cmp    x0, x1", "b      900 <slow>", machine=ARM))


if __name__ == "__main__":
    unittest.main()
