#include "model.h"
#include <stdio.h>
#include <string.h>
_Alignas(64) static char workspace[MODEL_RUN_WORKSPACE_BYTES];

static int32_t feed(void *user, const hlo_call *call, void *const *arrays) {
  ++*(int *)user;
  for (int n = 0; n < 4; n++)
    ((float *)arrays[call->operand_count])[n] = 10.0f;
  *(int32_t *)arrays[1] = 7;
  return 0;
}
static int32_t add(void *user, const hlo_call *call, void *const *arrays) {
  ++*(int *)user;
  if (strcmp(call->target, "my.target") || !strstr(call->text, "{scale = 2}") || call->results[0].dimensions[0] != 4)
    return 1;
  for (int n = 0; n < 4; n++)
    ((float *)arrays[2])[n] = ((float *)arrays[0])[n] + ((float *)arrays[1])[n];
  return 0;
}
static int32_t twice(void *user, const hlo_call *call, void *const *arrays) {
  ++*(int *)user;
  for (int n = 0; n < 4; n++)
    ((float *)arrays[call->operand_count])[n] = 2 * ((float *)arrays[0])[n];
  return 0;
}
static int32_t fail(void *user, const hlo_call *call, void *const *arrays) {
  (void)user, (void)call, (void)arrays;
  return 5;
}
int main(void) {
  float x[4] = {1, 2, 3, 4}, m[4];
  int32_t n = 0;
  int calls = 0;
  const hlo_library *library = model_library();
  for (uint32_t k = 0; k < library->function_count; k++)
    printf("%s ", library->functions[k]);
  hlo_function *functions[] = {feed, add, twice};
  hlo_context context = {0};
  context.user = &calls;
  puts(model_message(model_run_arrays(x, m, &n, workspace, &context)));
  context.functions = functions;
  puts(model_message(model_run_arrays(x, m, &n, workspace, &context)));
  printf("%g %g %g %g %d %d\n", m[0], m[1], m[2], m[3], n, calls);
  functions[1] = NULL;
  puts(model_message(model_run_arrays(x, m, &n, workspace, &context)));
  functions[1] = fail;
  puts(model_message(model_run_arrays(x, m, &n, workspace, &context)));
}
