/* `allow-calls NUMBER... -- PROGRAM ARGUMENT...`: runs a program under a seccomp filter that allows
 * the system calls of these numbers. Any other one kills it with SIGSYS.
 *
 * `allow-calls families NUMBER... -- PROGRAM ARGUMENT...`: allows `socket` with these families, and all
 * other calls. With another family it fails with EAFNOSUPPORT, as under RestrictAddressFamilies= of
 * systemd (seccomp_restrict_address_families in its src/shared/seccomp-util.c). */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* A loaded word is compared with one of these, and the next instruction skipped if it differs. */
static struct sock_filter filter[BPF_MAXINSNS];
static unsigned short length;

static void add(unsigned short code, unsigned value, unsigned char if_true, unsigned char if_false)
{
	filter[length++] = (struct sock_filter){ code, if_true, if_false, value };
}

static void load(unsigned offset)
{
	add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void end(unsigned action)
{
	add(BPF_RET | BPF_K, action, 0, 0);
}

static void end_if_equal(unsigned value, unsigned action)
{
	add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
	end(action);
}

int main(int count, char **words)
{
	int at = 1;
	int chooses_families = count > 1 && strcmp(words[1], "families") == 0;

	load(offsetof(struct seccomp_data, arch));
	add(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
	end(SECCOMP_RET_KILL_PROCESS);
	load(offsetof(struct seccomp_data, nr));
	if (chooses_families) {
		at++;
		add(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0);
		end(SECCOMP_RET_ALLOW);
		load(offsetof(struct seccomp_data, args[0]));
	}
	for (; at < count && strcmp(words[at], "--") != 0; at++)
		end_if_equal(strtoul(words[at], NULL, 10), SECCOMP_RET_ALLOW);
	end(chooses_families ? SECCOMP_RET_ERRNO | EAFNOSUPPORT : SECCOMP_RET_KILL_PROCESS);

	struct sock_fprog program = { length, filter };
	if (at + 1 >= count || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		perror("allow-calls");
		return 2;
	}
	execv(words[at + 1], words + at + 1);
	return 127;
}
