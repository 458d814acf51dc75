/* How long calls take: nanoseconds of processor time, of the quickest of many rounds. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int32_t run(const void *const *, void *const *, void *, size_t, const void *);
typedef void code(void **);

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

double time_run(run *entry, const void *const *arguments, void *const *results, void *workspace, size_t bytes,
                const void *context, int rounds, int calls) {
  double best = 1e300;
  for (int round = 0; round < rounds; round++) {
    double start = now();
    for (int call = 0; call < calls; call++)
      if (entry(arguments, results, workspace, bytes, context))
        return -1;
    double took = (now() - start) / calls;
    best = took < best ? took : best;
  }
  return best;
}

double time_code(code *entry, void **frame, size_t status, int rounds, int calls) {
  double best = 1e300;
  for (int round = 0; round < rounds; round++) {
    double start = now();
    for (int call = 0; call < calls; call++) {
      frame[status] = frame[status + 1] = NULL;
      entry(frame);
    }
    double took = (now() - start) / calls;
    best = took < best ? took : best;
  }
  return best;
}
