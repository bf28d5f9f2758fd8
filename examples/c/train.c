/* Trains the network of network.py without Python: `make` builds it, `./train` runs it. */
#include <stdio.h>
#include <stdlib.h>

#include "classify.h"
#include "step.h"

enum { IMAGES = 1797, LEARNED = 1536, BATCH = 64, EPOCHS = 30 };

static float x[IMAGES][64], w1[64][64], b1[64], w2[64][10], b2[10];
static int64_t y[IMAGES], found[IMAGES];
static char memory[1 << 22] __attribute__((aligned(64)));

static void take(FILE *file, void *to, size_t bytes) {
  if (fread(to, 1, bytes, file) != bytes) {
    fprintf(stderr, "digits.bin is too short: run python network.py\n");
    exit(1);
  }
}

static void check(const char *name, int32_t status, const mlc_context *context) {
  if (status == MLC_OK) return;
  fprintf(stderr, "%s: status %d, site %d, value %d\n", name, (int)status,
          (int)context->error_site, (int)context->error_value);
  exit(1);
}

int main(void) {
  mlc_context context = {0};
  FILE *file = fopen("digits.bin", "rb");
  float loss = 0, rate = 0.2f;
  int epoch, k, right = 0;
  if (file == NULL || step_check() != MLC_OK) {
    fprintf(stderr, "there is no digits.bin, or this machine lacks what network.py was built for\n");
    return 1;
  }
  take(file, x, sizeof x);
  take(file, y, sizeof y);
  take(file, w1, sizeof w1);
  take(file, b1, sizeof b1);
  take(file, w2, sizeof w2);
  take(file, b2, sizeof b2);
  fclose(file);
  context.arena = memory;
  context.arena_bytes = sizeof memory;
  for (epoch = 0; epoch < EPOCHS; epoch++)
    for (k = 0; k + BATCH <= LEARNED; k += BATCH)
      check("step", step_call(&context, BATCH, *w1, b1, *w2, b2, x[k], y + k, &rate, &loss), &context);
  check("classify", classify_call(&context, IMAGES, *w1, b1, *w2, b2, *x, found), &context);
  for (k = LEARNED; k < IMAGES; k++) right += found[k] == y[k];
  printf("loss %.6f, %.1f %% of %d other digits\n", loss, 100. * right / (IMAGES - LEARNED), IMAGES - LEARNED);
  file = fopen("weights.bin", "wb");
  if (file == NULL || fwrite(w1, sizeof w1, 1, file) + fwrite(b1, sizeof b1, 1, file) +
                              fwrite(w2, sizeof w2, 1, file) + fwrite(b2, sizeof b2, 1, file) != 4)
    return 1;
  return fclose(file);
}
