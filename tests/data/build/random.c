#include "model.h"
#include <stdio.h>
_Alignas(64) static char workspace[MODEL_RUN_WORKSPACE_BYTES];
int main(void) {
  uint64_t random[] = MODEL_RANDOM, s[2];
  float r[300];
  hlo_context context = {0};
  context.random = random;
  for (int n = 0; n < 4; n++) {
    if (n == 2)
      context.random = NULL;
    int32_t code = model_run_arrays(s, r, workspace, &context);
    printf("%d %llu %.9g\n", code, (unsigned long long)s[0], r[299]);
  }
  return sizeof random / sizeof *random != MODEL_RANDOM_WORDS;
}
