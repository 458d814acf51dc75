#include "model.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  void *workspace = aligned_alloc(64, MODEL_RUN_WORKSPACE_BYTES), *weights = aligned_alloc(64, 128);
  static float x[256], y[2048];
  hlo_context context = {0};
  for (int n = 0; n < 128; n++)
    ((char *)weights)[n] = 0;
  puts(model_message(model_run_arrays(x, y, workspace, NULL)));
  puts(model_message(model_run_arrays(x, y, workspace, &context)));
  context.weights = weights;
  puts(model_message(model_run_arrays(x, y, workspace, &context)));
  context.weights = (char *)weights + 1;
  puts(model_message(model_run_arrays(x, y, workspace, &context)));
  puts(model_message(model_weights_check(NULL, 7)));
}
