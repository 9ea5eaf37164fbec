// SPDX-License-Identifier: Apache-2.0
// The native half of the demo's inference service: one small transformer, computed honestly with
// random weights. Called from Python by ctypes.

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	WIDTH = 96,
	HEADS = 4,
	HEAD_WIDTH = WIDTH / HEADS,
	HIDDEN = 4 * WIDTH,
	LAYERS = 3,
	VOCABULARY = 2048,
	TOKENS_MAX = 96,
};

struct layer {
	float query[WIDTH * WIDTH], key[WIDTH * WIDTH], value[WIDTH * WIDTH], mix[WIDTH * WIDTH];
	float up[WIDTH * HIDDEN], down[HIDDEN * WIDTH];
};

struct model {
	float embedding[VOCABULARY * WIDTH];
	struct layer layers[LAYERS];
};

/* What one forward pass writes to; one per call, so that workers with threads would be safe. */
struct activations {
	float state[TOKENS_MAX * WIDTH], normed[TOKENS_MAX * WIDTH], mixed[TOKENS_MAX * WIDTH];
	float query[TOKENS_MAX * WIDTH], key[TOKENS_MAX * WIDTH], value[TOKENS_MAX * WIDTH];
	float hidden[TOKENS_MAX * HIDDEN];
};

#define NOINLINE __attribute__((noinline))

struct model *model_new(uint32_t seed);
void model_free(struct model *model);
int model_forward(const struct model *model, const int32_t *tokens, int count, float *ret_logits);
int model_vocabulary(void);
int model_tokens_max(void);

static float random_weight(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return ((float)(*state >> 8) / (float)(1 << 24) - 0.5f) * 0.2f;
}

struct model *model_new(uint32_t seed)
{
	struct model *model = malloc(sizeof(*model));
	float *weights = (float *)model;

	for (size_t i = 0; model && i < sizeof(*model) / sizeof(float); i++)
		weights[i] = random_weight(&seed);
	return model;
}

void model_free(struct model *model)
{
	free(model);
}

int model_vocabulary(void)
{
	return VOCABULARY;
}

int model_tokens_max(void)
{
	return TOKENS_MAX;
}

/* out[rows, columns] = in[rows, inner] * weights[inner, columns] */
NOINLINE static void matmul(const float *in, const float *weights, float *out, int rows, int inner,
			    int columns)
{
	memset(out, 0, sizeof(float) * (size_t)rows * (size_t)columns);
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < inner; i++)
			for (int c = 0; c < columns; c++)
				out[r * columns + c] +=
					in[r * inner + i] * weights[i * columns + c];
}

NOINLINE static void layer_norm(const float *in, float *out, int rows)
{
	for (int r = 0; r < rows; r++) {
		const float *row = in + r * WIDTH;
		float mean = 0, variance = 0;

		for (int i = 0; i < WIDTH; i++)
			mean += row[i] / WIDTH;
		for (int i = 0; i < WIDTH; i++)
			variance += (row[i] - mean) * (row[i] - mean) / WIDTH;
		for (int i = 0; i < WIDTH; i++)
			out[r * WIDTH + i] = (row[i] - mean) / sqrtf(variance + 1e-5f);
	}
}

NOINLINE static void softmax(float *scores, int count)
{
	float most = scores[0], sum = 0;

	for (int i = 1; i < count; i++)
		most = fmaxf(most, scores[i]);
	for (int i = 0; i < count; i++)
		sum += scores[i] = expf(scores[i] - most);
	for (int i = 0; i < count; i++)
		scores[i] /= sum;
}

NOINLINE static void attend_head(struct activations *at, int count, int head)
{
	float scores[TOKENS_MAX];

	for (int t = 0; t < count; t++) {
		const float *query = at->query + t * WIDTH + head * HEAD_WIDTH;
		float *out = at->mixed + t * WIDTH + head * HEAD_WIDTH;

		for (int s = 0; s <= t; s++) {
			const float *key = at->key + s * WIDTH + head * HEAD_WIDTH;

			scores[s] = 0;
			for (int i = 0; i < HEAD_WIDTH; i++)
				scores[s] += query[i] * key[i] / 5.0f;
		}
		softmax(scores, t + 1);
		memset(out, 0, sizeof(float) * HEAD_WIDTH);
		for (int s = 0; s <= t; s++)
			for (int i = 0; i < HEAD_WIDTH; i++)
				out[i] += scores[s] * at->value[s * WIDTH + head * HEAD_WIDTH + i];
	}
}

NOINLINE static void gelu(float *values, int count)
{
	for (int i = 0; i < count; i++)
		values[i] *= 0.5f * (1.0f + erff(values[i] * 0.70710678f));
}

static void add(float *into, const float *from, int count)
{
	for (int i = 0; i < count; i++)
		into[i] += from[i];
}

NOINLINE static void attention(const struct layer *layer, struct activations *at, int count)
{
	layer_norm(at->state, at->normed, count);
	matmul(at->normed, layer->query, at->query, count, WIDTH, WIDTH);
	matmul(at->normed, layer->key, at->key, count, WIDTH, WIDTH);
	matmul(at->normed, layer->value, at->value, count, WIDTH, WIDTH);
	for (int head = 0; head < HEADS; head++)
		attend_head(at, count, head);
	matmul(at->mixed, layer->mix, at->normed, count, WIDTH, WIDTH);
	add(at->state, at->normed, count * WIDTH);
}

NOINLINE static void feed_forward(const struct layer *layer, struct activations *at, int count)
{
	layer_norm(at->state, at->normed, count);
	matmul(at->normed, layer->up, at->hidden, count, WIDTH, HIDDEN);
	gelu(at->hidden, count * HIDDEN);
	matmul(at->hidden, layer->down, at->normed, count, HIDDEN, WIDTH);
	add(at->state, at->normed, count * WIDTH);
}

NOINLINE static void project(const struct model *model, const float *state, float *ret_logits)
{
	for (int token = 0; token < VOCABULARY; token++) {
		float sum = 0;

		for (int i = 0; i < WIDTH; i++)
			sum += state[i] * model->embedding[token * WIDTH + i];
		ret_logits[token] = sum;
	}
}

/* Logits of the token that follows @tokens. Returns 0, or -1 when they are too many or unknown. */
int model_forward(const struct model *model, const int32_t *tokens, int count, float *ret_logits)
{
	struct activations *at;

	if (count < 1 || count > TOKENS_MAX)
		return -1;
	for (int t = 0; t < count; t++)
		if (tokens[t] < 0 || tokens[t] >= VOCABULARY)
			return -1;
	at = malloc(sizeof(*at));
	if (!at)
		return -1;
	for (int t = 0; t < count; t++)
		memcpy(at->state + t * WIDTH, model->embedding + tokens[t] * WIDTH,
		       sizeof(float) * WIDTH);
	for (int i = 0; i < LAYERS; i++) {
		attention(&model->layers[i], at, count);
		feed_forward(&model->layers[i], at, count);
	}
	layer_norm(at->state, at->normed, count);
	project(model, at->normed + (count - 1) * WIDTH, ret_logits);
	free(at);
	return 0;
}
