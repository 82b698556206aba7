/* Which pages a fresh fork of this process writes to, found by trying; and having them copied at once in
 * later forks. The kernel copies a page when it is first written to, and each time that costs a trap: several
 * times as much as the copy. In a box that waits it is done before anybody waits for it. */
#pragma once

/* Forks, calls `rehearse` there, and remembers the pages that it has written to. Without an answer (an old
 * kernel, a failure) none are remembered: that costs time and nothing else. */
void gb_prefault_learn(void (*rehearse)(void *context), void *context, int proc_fd);
/* In a fork: has them copied. */
void gb_prefault(void);
