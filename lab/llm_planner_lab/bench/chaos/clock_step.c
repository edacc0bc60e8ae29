// SPDX-License-Identifier: Apache-2.0
/* Steps the system time of a process: CLOCK_REALTIME is read through here (LD_PRELOAD). The offset, in nanoseconds, is
 * the first eight bytes of the file that LLM_PLANNER_CHAOS_CLOCK names. Waits until a system time are corrected, as the
 * kernel knows nothing of the offset; a wait that has begun goes on as it was. CLOCK_MONOTONIC is never touched, as a
 * real step does not touch it either. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
static const volatile int64_t *offset_ns;

__attribute__((constructor)) static void open_offset(void) {
  const char *path = getenv("LLM_PLANNER_CHAOS_CLOCK");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset_ns = page;
  close(file);
}

static struct timespec shifted(struct timespec t, int sign) {
  int64_t ns = t.tv_sec * SECOND + t.tv_nsec + (offset_ns ? sign * *offset_ns : 0);
  struct timespec result = {ns / SECOND, ns % SECOND};
  return result;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  int failed = syscall(SYS_clock_gettime, clock, t);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *t = shifted(*t, 1);
  return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}

/* A deadline of CLOCK_MONOTONIC is less than thirty years after the machine was started. */
static struct timespec deadline(const struct timespec *t) { return t->tv_sec < 1000000000 ? *t : shifted(*t, -1); }

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
  static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  struct timespec at = deadline(until);
  return real(condition, mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
  static int (*real)(sem_t *, const struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "sem_timedwait");
  struct timespec at = deadline(until);
  return real(semaphore, &at);
}
