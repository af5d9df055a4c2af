/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AddressSanitizer's runtime, where it is a library (gcc's way), ends a program in which another library comes before it:
 * one that stood in for its functions would blind it. What stands here first hands on to it. A program that has this
 * function itself, or says otherwise in ASAN_OPTIONS, has the last word.
 */

/* Called before this library's addresses are filled in: it uses none. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}
