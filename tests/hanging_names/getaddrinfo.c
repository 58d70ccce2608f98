/* Preloaded into a process, a look-up of a name that begins with "hangs" takes a minute and finds nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int look_up(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
  if (name && strncmp(name, "hangs", 5) == 0) {
    sleep(60);
    return EAI_AGAIN;
  }
  return ((look_up *)dlsym(RTLD_NEXT, "getaddrinfo"))(name, service, hints, found);
}
