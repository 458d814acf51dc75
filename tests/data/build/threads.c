/* A program with threads of the library's own: results are those of one thread, and the pool can end and begin anew. */
#include "model.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Alignas(64) static char pool[MODEL_THREADS_BYTES];
static int jobs;

static void counted(void *threads, hlo_task *task, void *arguments, int64_t tasks) {
  __atomic_add_fetch(&jobs, 1, __ATOMIC_RELAXED);
  model_threads_run(threads, task, arguments, tasks);
}

static void *room(uint64_t bytes) {
  void *found = aligned_alloc(64, (bytes + 127) / 64 * 64);
  memset(found, 0, bytes);
  return found;
}

static const hlo_entry *entry;
static const void *arguments[16];
static void *wanted[16];
static hlo_context context;

static void run(const hlo_context *with, void **results) {
  void *workspace = room(entry->workspace_bytes);
  for (uint32_t n = 0; n < entry->result_count; n++)
    results[n] = room(entry->results[n].bytes);
  if (entry->run(arguments, results, workspace, entry->workspace_bytes, with))
    exit(3);
  free(workspace);
}

static void *again(void *unused) {
  (void)unused;
  for (int time = 0; time < 20; time++) {
    void *results[16];
    run(&context, results);
    for (uint32_t n = 0; n < entry->result_count; n++) {
      if (memcmp(results[n], wanted[n], entry->results[n].bytes))
        exit(4);
      free(results[n]);
    }
  }
  return NULL;
}

int main(void) {
  entry = model_library()->entries;
  for (uint32_t n = 0; n < entry->argument_count; n++) {
    float *values = room(entry->arguments[n].bytes);
    for (uint64_t at = 0; at < entry->arguments[n].bytes / 4; at++)
      values[at] = (float)((at * 7 + n) % 13) / 13.0f - 0.5f;
    arguments[n] = values;
  }
  run(NULL, wanted);
  printf("%d %d %d\n", model_threads_start(NULL, sizeof pool, 2) == HLO_NULL,
         model_threads_start(pool + 8, sizeof pool, 2) == HLO_MISALIGNED,
         model_threads_start(pool, sizeof pool - 1, 2) == HLO_SHORT);
  for (uint32_t threads = 1; threads < 5; threads++) {
    if (model_threads_start(pool, sizeof pool, threads))
      return 5;
    context.threads = pool;
    context.parallel_for = counted;
    context.parallel_for_short = model_threads_run_short;
    pthread_t other;
    pthread_create(&other, NULL, again, NULL);
    again(NULL);
    pthread_join(other, NULL);
    model_threads_stop(pool);
  }
  printf("%d\n", jobs > 0);
  for (uint32_t n = 0; n < entry->argument_count; n++)
    free((void *)arguments[n]);
  for (uint32_t n = 0; n < entry->result_count; n++)
    free(wanted[n]);
}
