"""Reading assembly: stored loops of x86-64 and AArch64, and kernels of this machine."""

from __future__ import annotations

import platform

import pytest

import fastgrad
from fastgrad.bench.workloads import DTYPES
from fastgrad.profile import __main__ as command
from fastgrad.profile import arm, assembly, x86
from fastgrad.profile.assembly import assembly_of, hot_loop
from fastgrad.profile.assembly_report import class_table, listing, scalar_warning, width_lines
from fastgrad.vector_unit.precision import PRECISIONS
from processes import run_python

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
FLOAT32, BFLOAT16 = PRECISIONS[DTYPES["float32"]], PRECISIONS[DTYPES["bfloat16"]]

#: A loop of 512 bits, its remainder of 128, a scalar one, and a copy past the cache.
LOOPS = """
\t.section\t.rodata.cst4,"aM",@progbits,4
.LCPI0_1:
\t.long\t0x3f800000
_ZN5tilesB2v1:
\tmovq\t%rdi, 424(%rsp)
.LBB0_9:
\tvmovups\t(%rsi,%rax), %zmm0
\tvmovntps\t%zmm0, (%rdi,%rax)
\taddq\t$64, %rax
\tcmpq\t%rax, %rcx
\tjne\t.LBB0_9
.LBB0_10:
\txorl\t%edx, %edx
\t.p2align\t4
.LBB0_12:
\tvmulps\t(%r14,%rdx,4), %zmm7, %zmm0  # a comment
\tmovabsq\t$.LCPI0_1, %rsi
\tvbroadcastss\t(%rsi), %zmm2
\tvcmpltps\t%zmm22, %zmm0, %k1
\tvfmadd213ps\t(%r10){1to16}, %zmm0, %zmm2
\tvmovups\t64(%rsp), %zmm9
\tvdivps\t%zmm9, %zmm2, %zmm0
\tvmovaps\t%zmm1, %zmm0 {%k1}
\tvmovups\t%zmm0, (%rbx,%rdx,4)
\taddq\t$16, %rdx
\tcmpq\t%rdx, %rcx
\tjne\t.LBB0_12
.LBB0_13:
\tvmulps\t(%r14,%rdx,4), %xmm7, %xmm0
\tvaddps\t%xmm1, %xmm0, %xmm0
\tvaddps\t%xmm1, %xmm0, %xmm0
\tvaddps\t%xmm1, %xmm0, %xmm0
\tvaddps\t%xmm1, %xmm0, %xmm0
\tvmovups\t%xmm0, (%rbx,%rdx,4)
\taddq\t$4, %rdx
\tjne\t.LBB0_13
.LBB0_14:
\tvmulss\t(%r14,%rdx,4), %xmm7, %xmm0
\tvmovss\t%xmm0, (%rbx,%rdx,4)
\tincq\t%rdx
\tjne\t.LBB0_14
\tjmp\t.LBB0_10
"""

SCALAR = """
tiles:
.LBB0_3:
\tvmovss\t(%rsi,%rcx,4), %xmm0
\tvmulss\t%xmm1, %xmm0, %xmm0
\tvaddss\t%xmm2, %xmm0, %xmm0
\tvpaddd\t%xmm4, %xmm3, %xmm3
\tvmovss\t%xmm0, (%rdi,%rcx,4)
\tincq\t%rcx
\tcmpq\t%rcx, %rdx
\tjne\t.LBB0_3
\tretq
"""

NEON = """
tiles:
.LBB0_5:
\tldp\tq1, q2, [x9, #-16]
\tfmul\tv1.4s, v1.4s, v0.4s
\tfmla\tv2.4s, v1.4s, v0.4s
\tfdiv\tv2.4s, v2.4s, v1.4s
\tstr\tq2, [x10], #16
\tadd\tx9, x9, #16
\tsubs\tx11, x11, #4
\tb.ne\t.LBB0_5
\tret
"""


class TestReading:
    def test_the_hot_loop_is_the_widest_that_computes(self):
        loop = hot_loop(LOOPS, X86)
        assert loop.label == ".LBB0_12"
        assert (loop.bits, loop.elements(4)) == (512, 16)
        assert width_lines(loop, FLOAT32)[:2] == [
            "Vector width: 512 bits: 16 float32 lanes.",
            "A turn: 16 elements, 1 vector; 12 instructions, 0.75 an element.",
        ]
        assert scalar_warning(loop) == ""

    def test_every_line_has_its_note(self):
        notes = [own.meaning for own in hot_loop(LOOPS, X86).instructions]
        assert notes == [
            "multiplication, with elements in memory",
            "address of a constant",
            "constant",
            "comparison",
            "fused multiply-add, with a constant",
            "reload of a spilled register",
            "division",
            "blend",
            "store of results",
            "loop control",
            "loop control",
            "jump, if there is more",
        ]
        line = next(one for one in listing(hot_loop(LOOPS, X86)).split("\n") if "vdivps" in one)
        assert line.endswith("# division")

    def test_constants_and_spills_are_pointed_out(self):
        text = " ".join(width_lines(hot_loop(LOOPS, X86), FLOAT32))
        assert "2 of the instructions fetch constants" in text
        assert "1 of the instructions use spilled registers" in text

    def test_classes_are_counted(self):
        counts = dict(hot_loop(LOOPS, X86).counts())
        assert counts["multiplication"] == counts["fused multiply-add"] == counts["division"] == 1
        rows = {
            row[0].text: [cell.text for cell in row]
            for row in class_table(hot_loop(LOOPS, X86)).rows
        }
        assert rows["multiplication"] == ["multiplication", "1", "1", "512"]

    def test_a_scalar_loop_is_called_scalar(self):
        loop = hot_loop(SCALAR, X86)
        assert loop.bits == 0
        assert "the loop computes one float32 at a time" in width_lines(loop, FLOAT32)[0]
        assert scalar_warning(loop) == "The hot loop is scalar: LLVM has not vectorised it."
        assert "scalar multiplication" in listing(loop)

    def test_a_vector_loop_with_a_scalar_division(self):
        loop = hot_loop(
            LOOPS.replace("vdivps\t%zmm9, %zmm2, %zmm0", "vdivss\t%xmm9, %xmm2, %xmm0"), X86
        )
        assert loop.bits == 512
        assert scalar_warning(loop) == "1 instructions of the loop compute a single lane."

    def test_16_bit_results(self):
        loop = hot_loop(
            LOOPS.replace("vmovups\t%zmm0, (%rbx,%rdx,4)", "vpmovdw\t%zmm0, (%rbx,%rdx,2)"), X86
        )
        assert width_lines(loop, BFLOAT16)[:2] == [
            "Vector width: 512 bits: 16 float32 lanes.",
            "A turn: 16 elements, 1 vector; 12 instructions, 0.75 an element.",
        ]
        assert "store of results after conversion" in listing(loop)

    def test_nothing_to_find(self):
        assert hot_loop("tiles:\n\tretq\n", X86) is None

    def test_aarch64(self):
        loop = hot_loop(NEON, ARM)
        assert (loop.bits, loop.elements(4)) == (128, 4)
        assert width_lines(loop, FLOAT32)[0] == "Vector width: 128 bits: 4 float32 lanes."
        notes = [own.meaning for own in loop.instructions]
        assert notes[:5] == [
            "load of elements",
            "multiplication",
            "fused multiply-add",
            "division",
            "store of results",
        ]

    @pytest.mark.parametrize(
        ("text", "kind", "is_packed"),
        [
            ("vpminsd %zmm1, %zmm2, %zmm3", "minimum, maximum", True),
            ("vmaxss %xmm1, %xmm2, %xmm3", "minimum, maximum", False),
            ("mulps %xmm1, %xmm2", "multiplication", True),
            ("vcvttss2si %xmm1, %eax", "conversion", False),
            ("vcvtph2ps (%r12,%rcx,2), %zmm2", "conversion", True),
            ("vpternlogd $202, %zmm1, %zmm2, %zmm3", "bits", True),
            ("vrndscaleps $8, %zmm1, %zmm2", "rounding", True),
            ("movq %rbp, %r10", "scalar move", False),
            ("vscalefps %zmm1, %zmm2, %zmm3", "scale by a power of two", True),
        ],
    )
    def test_x86_classes(self, text, kind, is_packed):
        own = x86.instruction(text)
        assert (own.kind, own.is_packed) == (kind, is_packed)

    def test_steps(self):
        assert x86.step("leaq 32(%rdx), %rdx") == ("%rdx", 32)
        assert x86.step("subq $-128, %rdx") == ("%rdx", 128)
        assert x86.step("decq %rdx") == ("%rdx", -1)
        assert x86.step("addq %rax, %rdx") is None
        assert arm.step("sub x9, x9, #16") == ("x9", -16)
        assert arm.step("add x9, x8, #16") is None


class TestThroughput:
    @pytest.fixture
    def tool(self, tmp_path, monkeypatch):
        """Puts an llvm-mca of the given text in the only folder of PATH."""

        def make(text: str) -> None:
            (tmp_path / "llvm-mca").write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / "llvm-mca").chmod(0o755)

        monkeypatch.setenv("PATH", str(tmp_path))
        return make

    def test_not_installed(self, tool):
        assert assembly.throughput(hot_loop(LOOPS, X86)) is None

    def test_its_estimate(self, tool):
        tool('echo "LLVM version 22.1.0"; echo "Total Cycles:      2030"')
        assert assembly.throughput(hot_loop(LOOPS, X86)) == (20.3, "22.1.0")

    def test_it_knows_no_such_processor(self, tool):
        tool('echo "Total Cycles: 7"; exit 1')
        assert assembly.throughput(hot_loop(LOOPS, X86)) is None


@fastgrad.elementwise
def _scaled(x, factor=2.0):
    return x * factor + 1.0


class TestKernels:
    def test_the_vector_width_of_a_kernel_is_named(self):
        loop = hot_loop(*assembly_of(_scaled.trace(), FLOAT32))
        assert loop.bits >= 128
        lanes = loop.bits // 32
        assert (
            width_lines(loop, FLOAT32)[0]
            == f"Vector width: {loop.bits} bits: {lanes} float32 lanes."
        )
        assert loop.elements(4) % lanes == 0
        assert not loop.scalar

    def test_a_kernel_that_llvm_may_not_vectorise(self):
        code = (
            "from fastgrad.profile.__main__ import main; main(['assembly', '--op', 'swish_grad'])"
        )
        shown = run_python(code, NUMBA_LOOP_VECTORIZE="0", NUMBA_SLP_VECTORIZE="0")
        assert "Vector width: none, the loop computes one float32 at a time." in shown
        assert "The hot loop is scalar: LLVM has not vectorised it." in shown


def test_the_command(capsys):
    assert command.main(["assembly", "--op", "swish_grad", "--dtype", "float32"]) == 0
    shown = capsys.readouterr().out
    assert "swish_grad, float32: the hot loop of its tiles, for " in shown
    assert f"({platform.machine()}" in shown
    assert " float32 lanes." in shown
    assert "fused multiply-add" in shown
