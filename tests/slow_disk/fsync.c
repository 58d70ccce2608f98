/* Preloaded into a process, each fsync and fdatasync of it takes as many milliseconds longer as SLOW_DISK_FILE says.
 *
 * The file is read at each call, so a test makes the disk slow and quick again while the process runs. A process
 * started without the variable, or whose file is gone, has the disk it had.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_for_the_disk(void) {
  const char *path = getenv("SLOW_DISK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  char text[16] = {0};
  long ms = read(file, text, sizeof text - 1) > 0 ? strtol(text, NULL, 10) : 0;
  close(file);
  if (ms <= 0) return;
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

int fsync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
  wait_for_the_disk();
  return (int)syscall(SYS_fdatasync, file);
}
