#include "model.h"
#include <stdio.h>
#include <string.h>
_Alignas(64) static char workspace[MODEL_RUN_WORKSPACE_BYTES + 64];
int main(void) {
  float x[4] = {1, 2, 3, 4}, y[4];
  const void *given[] = {x}, *no_argument[] = {NULL};
  void *taken[] = {y}, *no_result[] = {NULL};
  size_t enough = MODEL_RUN_WORKSPACE_BYTES;
  int32_t codes[] = {
      model_run(given, taken, workspace, enough, NULL),
      model_run(NULL, taken, workspace, enough, NULL),
      model_run(given, NULL, workspace, enough, NULL),
      model_run(no_argument, taken, workspace, enough, NULL),
      model_run(given, no_result, workspace, enough, NULL),
      model_run(given, taken, NULL, enough, NULL),
      model_run(given, taken, workspace + 8, enough, NULL),
      model_run(given, taken, workspace, enough - 1, NULL),
      model_run(given, taken, workspace, 0, NULL),
  };
  for (size_t n = 0; n < sizeof codes / sizeof *codes; n++)
    printf("%d %s\n", codes[n], model_message(codes[n]));
  printf("%s %s\n", model_message(-1), model_message(1000));
  return y[3] != 8;
}
