/* Preloaded into a process, its disk is as slow or as full as SLOW_DISK_FILE says: so many milliseconds longer in each
 * fsync and fdatasync, or "full", where Callboard's database cannot grow.
 *
 * The file is read at each call, so a test makes the disk slow, full and well again while the process runs. A process
 * started without the variable, or whose file is gone, has the disk it had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *FULL = "full";

static void read_state(char text[16]) {
  const char *path = getenv("SLOW_DISK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  if (read(file, text, 15) < 0) text[0] = 0;
  close(file);
}

static void wait_for_the_disk(void) {
  char text[16] = {0};
  read_state(text);
  long ms = strtol(text, NULL, 10);
  if (ms <= 0) return;
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static int has_no_space(int file, off64_t end) {
  char state[16] = {0}, link[32], path[4096] = {0};
  struct stat64 now;
  read_state(state);
  if (strcmp(state, FULL) != 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (readlink(link, path, sizeof path - 1) < 0 || strstr(path, "callboard.db") == NULL) return 0;
  return fstat64(file, &now) == 0 && end > now.st_size;
}

int fsync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fdatasync, file);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
  if (has_no_space(file, at + (off64_t)size)) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_pwrite64, file, bytes, size, at);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) { return pwrite64(file, bytes, size, at); }
