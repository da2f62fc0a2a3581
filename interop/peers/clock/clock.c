// A wall clock that a test steps while a process runs: for LD_PRELOAD.
//
// CLOCK_REALTIME is ahead by the seconds in the file that OXDS_CLOCK names. Other clocks, sleeps and timeouts are as they are.
// Debian's libfaketime cannot be used: a sleep of Rust (clock_nanosleep until a monotonic time) never ends or fails
// under it.
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long seconds_ahead(void) {
    const char *path = getenv("OXDS_CLOCK");
    FILE *file = path ? fopen(path, "re") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds_ahead();
    return result;
}
