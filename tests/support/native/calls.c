/* Writes down every call that changes a file whose path contains $CALLS_ABOUT, in order
   and with its bytes, into the file $CALLS_LOG. Preloaded into a process under test.
   A record: one letter, then 64-bit little-endian path length, offset, data length;
   then path and data. W write, T truncate (offset: length), S sync, U unlink. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int out = -1;

static ssize_t real_write(int fd, const void *data, size_t size) {
  static ssize_t (*next)(int, const void *, size_t);
  if (!next) next = dlsym(RTLD_NEXT, "write");
  return next(fd, data, size);
}

static int ours(const char *path) {
  const char *about = getenv("CALLS_ABOUT");
  return about && strstr(path, about) != NULL;
}

static int path_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return ours(path);
}

static void put(char kind, const char *path, uint64_t offset, const void *data,
                uint64_t size) {
  if (out < 0) {
    const char *log = getenv("CALLS_LOG");
    if (!log) return;
    int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    out = next(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }
  uint64_t length = strlen(path);
  real_write(out, &kind, 1);
  real_write(out, &length, 8);
  real_write(out, &offset, 8);
  real_write(out, &size, 8);
  real_write(out, path, length);
  if (size) real_write(out, data, size);
}

#define NEXT(name, type) static __typeof__(type) next; if (!next) next = dlsym(RTLD_NEXT, name)

ssize_t write(int fd, const void *data, size_t size) {
  char path[4096];
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t done = real_write(fd, data, size);
  if (done > 0 && at >= 0 && path_of(fd, path, sizeof path)) put('W', path, at, data, done);
  return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
  NEXT("pwrite64", ssize_t (*)(int, const void *, size_t, off64_t));
  char path[4096];
  ssize_t done = next(fd, data, size, offset);
  if (done > 0 && path_of(fd, path, sizeof path)) put('W', path, offset, data, done);
  return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
  return pwrite64(fd, data, size, offset);
}

int ftruncate64(int fd, off64_t length) {
  NEXT("ftruncate64", int (*)(int, off64_t));
  char path[4096];
  int done = next(fd, length);
  if (!done && path_of(fd, path, sizeof path)) put('T', path, length, NULL, 0);
  return done;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

int fsync(int fd) {
  NEXT("fsync", int (*)(int));
  char path[4096];
  int done = next(fd);
  if (!done && path_of(fd, path, sizeof path)) put('S', path, 0, NULL, 0);
  return done;
}

int fdatasync(int fd) {
  NEXT("fdatasync", int (*)(int));
  char path[4096];
  int done = next(fd);
  if (!done && path_of(fd, path, sizeof path)) put('S', path, 0, NULL, 0);
  return done;
}

int unlink(const char *path) {
  NEXT("unlink", int (*)(const char *));
  int done = next(path);
  if (!done && ours(path)) put('U', path, 0, NULL, 0);
  return done;
}
