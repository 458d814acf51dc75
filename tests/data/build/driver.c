/* Runs an entry of any library, by what that says of itself: driver ENTRY IN OUT [WEIGHTS] [THREADS].

   IN has the arguments one after the other, OUT gets the results.  With threads, each runs the entry many times with a
   workspace and results of its own, and all results have to be the same. */

#include HEADER
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hlo_entry *entry;
static const void **arguments;
static hlo_context context;
static void **wanted;

static void *room(uint64_t bytes) {
  void *found = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!found)
    exit(2);
  return found;
}

static char *content(const char *path, uint64_t *bytes) {
  FILE *file = fopen(path, "rb");
  if (!file)
    exit(2);
  fseek(file, 0, SEEK_END);
  *bytes = (uint64_t)ftell(file);
  rewind(file);
  char *data = room(*bytes);
  if (fread(data, 1, *bytes, file) != *bytes)
    exit(2);
  fclose(file);
  return data;
}

static void **results(void) {
  void **made = room(sizeof(void *) * entry->result_count);
  for (uint32_t n = 0; n < entry->result_count; n++)
    made[n] = entry->results[n].alias < 0 ? room(entry->results[n].bytes) : NULL;
  return made;
}

static int32_t run(void **out) {
  void *workspace = room(entry->workspace_bytes);
  memset(workspace, 0xA5, entry->workspace_bytes);
  int32_t code = entry->run(arguments, out, workspace, entry->workspace_bytes, &context);
  free(workspace);
  return code;
}

static void *again(void *unused) {
  (void)unused;
  for (int time = 0; time < 50; time++) {
    void **out = results();
    if (run(out))
      return "failed";
    for (uint32_t n = 0; n < entry->result_count; n++) {
      if (out[n] && memcmp(out[n], wanted[n], entry->results[n].bytes))
        return "differs";
      free(out[n]);
    }
    free(out);
  }
  return NULL;
}

int main(int count, char **words) {
  const hlo_library *library = LIBRARY();
  uint64_t bytes;
  if (count < 4 || library->abi != HLO_ABI)
    return 2;
  entry = &library->entries[atoi(words[1])];
  char *data = content(words[2], &bytes), *weights = NULL;
  arguments = room(sizeof(void *) * entry->argument_count);
  uint64_t at = 0;
  for (uint32_t n = 0; n < entry->argument_count; n++) {
    arguments[n] = data + at;
    at += entry->arguments[n].bytes;
  }
  if (at != bytes)
    return 2;
  if (count > 4 && words[4][0]) {
    uint64_t size;
    weights = content(words[4], &size);
    int32_t code = CHECK(weights, size);
    context.weights = weights;
    if (code) {
      printf("%s\n", MESSAGE(code));
      return 1;
    }
  }
  wanted = results();
  int32_t code = run(wanted);
  printf("%s\n", MESSAGE(code));
  FILE *file = fopen(words[3], "wb");
  for (uint32_t n = 0; n < entry->result_count; n++) {
    int32_t alias = entry->results[n].alias;
    fwrite(alias < 0 ? wanted[n] : arguments[alias], 1, entry->results[n].bytes, file);
  }
  fclose(file);
  int threads = count > 5 ? atoi(words[5]) : 0;
  pthread_t started[16];
  for (int n = 0; n < threads; n++)
    pthread_create(&started[n], NULL, again, NULL);
  for (int n = 0; n < threads; n++) {
    void *said;
    pthread_join(started[n], &said);
    if (said)
      code = (puts(said), 1);
  }
  for (uint32_t n = 0; n < entry->result_count; n++)
    free(wanted[n]);
  free(wanted);
  free(arguments);
  free(weights);
  free(data);
  return code != 0;
}
