#include "model.h"
#include <stdio.h>
static float w[64], g[64], n[64], l[64];
_Alignas(64) static char workspace[MODEL_RUN_WORKSPACE_BYTES];
int main(void) {
  w[1] = 5, g[1] = 2;
  printf("%d ", model_run_arrays(w, g, l, workspace, NULL));
  printf("%g %g ", w[1], l[1]);
  const void *given[] = {w, g};
  void *taken[] = {n, l}, *own[] = {w, l};
  printf("%d ", model_run(given, taken, workspace, sizeof workspace, NULL) == HLO_ALIAS);
  printf("%d ", model_run(given, own, workspace, sizeof workspace, NULL));
  printf("%g", w[1]);
}
