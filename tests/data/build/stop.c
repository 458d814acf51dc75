#include "model.h"
#include <stdio.h>
_Alignas(64) static char workspace[MODEL_RUN_WORKSPACE_BYTES];
static int32_t stop(void *user) { return ++*(int *)user > 2; }
int main(void) {
  int32_t s = 0, w;
  int asked = 0;
  hlo_context context = {0};
  context.user = &asked;
  context.poll = stop;
  puts(model_message(model_run_arrays(&s, &w, workspace, &context)));
  return asked != 3;
}
