/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The entry points. Each notes in the thread's words what kind of call begins and that one more has begun, and jumps to
 * the next definition of the same name. Nothing is noted at the return, so arguments, their number and the stack stay as
 * the caller left them, and the same code stands before every MPI and every calling language.
 *
 * Budget: 2 stores, 3 loads and 3 jumps, all predicted. Only the first call of a function (which looks for it), every call of a thread that does not
 * go the quick way (holder.h), and those of functions that know nothing of requests of ours while receives of ours are pending (requests.h), go through
 * sn_mpi_enter() in shim.c.
 */

#define STAYS sn_mpi_shim + 4 /* shim.h */
#define PASS  sn_mpi_shim + 8

#if defined(__x86_64__)

	.macro ENTRY name, kind, ours=0
	.text
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	endbr64
	movq	sn_mpi_thread@GOTTPOFF(%rip), %r11
	movl	$\kind, %fs:(%r11)
	incl	%fs:4(%r11)
	movl	%fs:8(%r11), %r11d
	cmpl	%r11d, PASS(%rip)
	jne	1f
	.if	\ours == 0
	cmpl	$0, STAYS(%rip)
	jne	1f
	.endif
	jmp	*.Lnext_\name(%rip)
1:	movl	$index, %r11d
	jmp	enter
	.size	\name, . - \name
	.data
.Lnext_\name:
	.quad	1b
	.set	index, index + 1
	.endm

	.text
	.type	enter, @function
enter:
	pushq	%rbp
	movq	%rsp, %rbp
	andq	$-16, %rsp
	subq	$192, %rsp
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%rax, 48(%rsp)
	movaps	%xmm0, 64(%rsp)
	movaps	%xmm1, 80(%rsp)
	movaps	%xmm2, 96(%rsp)
	movaps	%xmm3, 112(%rsp)
	movaps	%xmm4, 128(%rsp)
	movaps	%xmm5, 144(%rsp)
	movaps	%xmm6, 160(%rsp)
	movaps	%xmm7, 176(%rsp)
	movl	%r11d, %edi
	call	sn_mpi_enter
	movq	%rax, %r11
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	movq	48(%rsp), %rax
	movaps	64(%rsp), %xmm0
	movaps	80(%rsp), %xmm1
	movaps	96(%rsp), %xmm2
	movaps	112(%rsp), %xmm3
	movaps	128(%rsp), %xmm4
	movaps	144(%rsp), %xmm5
	movaps	160(%rsp), %xmm6
	movaps	176(%rsp), %xmm7
	leave
	jmp	*%r11
	.size	enter, . - enter

#elif defined(__aarch64__)

	.macro ENTRY name, kind, ours=0
	.text
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	hint	#34 /* bti c */
	adrp	x16, :gottprel:sn_mpi_thread
	ldr	x16, [x16, :gottprel_lo12:sn_mpi_thread]
	mrs	x17, tpidr_el0
	add	x16, x16, x17
	mov	w17, #\kind
	str	w17, [x16]
	ldr	w17, [x16, #4]
	add	w17, w17, #1
	str	w17, [x16, #4]
	ldr	w17, [x16, #8]
	adrp	x16, PASS
	ldr	w16, [x16, :lo12:PASS]
	cmp	w16, w17
	b.ne	1f
	.if	\ours == 0
	adrp	x16, STAYS
	ldr	w17, [x16, :lo12:STAYS]
	cbnz	w17, 1f
	.endif
	adrp	x16, .Lnext_\name
	ldr	x16, [x16, :lo12:.Lnext_\name]
	br	x16
1:	hint	#36 /* bti j */
	mov	w16, #index
	b	enter
	.size	\name, . - \name
	.data
.Lnext_\name:
	.quad	1b
	.set	index, index + 1
	.endm

	.text
	.type	enter, %function
enter:
	stp	x29, x30, [sp, #-224]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x8, [sp, #80]
	stp	q0, q1, [sp, #96]
	stp	q2, q3, [sp, #128]
	stp	q4, q5, [sp, #160]
	stp	q6, q7, [sp, #192]
	mov	w0, w16
	bl	sn_mpi_enter
	mov	x16, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	ldr	x8, [sp, #80]
	ldp	q0, q1, [sp, #96]
	ldp	q2, q3, [sp, #128]
	ldp	q4, q5, [sp, #160]
	ldp	q6, q7, [sp, #192]
	ldp	x29, x30, [sp], #224
	br	x16
	.size	enter, . - enter

#else
#error "no entry points for this processor: the build leaves the library out"
#endif

	/* The jump targets, one after the other: sn_mpi_enter() fills them in. */
	.data
	.p2align 3
	.globl	sn_mpi_next
	.hidden	sn_mpi_next
sn_mpi_next:
	.set	index, 0

/* Both names of a call: tools call the one with P from their own definition of the other. */
#define WAITS(name)	 ENTRY name, 1; ENTRY P##name, 1;
#define POLLS(name)	 ENTRY name, 2; ENTRY P##name, 2;
#define WAITS_OURS(name) ENTRY name, 1, 1; ENTRY P##name, 1, 1;
#define POLLS_OURS(name) ENTRY name, 2, 1; ENTRY P##name, 2, 1;
#include "calls.h"

	.section .note.GNU-stack, "", %progbits
