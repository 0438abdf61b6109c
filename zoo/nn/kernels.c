/* Steps of decoding that take several passes over memory with torch's operators and one here.
   `kernels.py` compiles this file when it is asked to. Plain C with GCC's vector extension. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 16
#define MAX_KEYS 4096
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));

static inline Vector load(const float *from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(float *to, Vector x) { memcpy(to, &x, sizeof x); }

static inline float sum(Vector x) {
    x += __builtin_shuffle(x, (Ints){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
    x += __builtin_shuffle(x, (Ints){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
    x += __builtin_shuffle(x, (Ints){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
    return x[0] + x[1];
}

/* Σ_j w_j v_j for columns of v, of the listed rows. */
static inline void mix(const float *v, int64_t stride, const int32_t *used, const float *weights,
                       int64_t count, float factor, int vectors, float *out) {
    Vector total[4] = {};
    for (int64_t j = 0; j < count; j++)
        for (int c = 0; c < vectors; c++)
            total[c] += load(v + used[j] * stride + c * WIDTH) * weights[j];
    for (int c = 0; c < vectors; c++) store(out + c * WIDTH, total[c] * factor);
}

/* e^x for x of at most 0, to 2 units of the last place: 2^n p(r) with |r| of at most ln 2 / 2. */
static inline Vector exponential(Vector x) {
    const Vector lowest = (Vector){} - 87.0f;
    const Ints below = x < lowest;
    x = (Vector)(((Ints)x & ~below) | ((Ints)lowest & below));
    Vector shifted = x * 1.44269504f + 12582912.0f; /* 1.5 · 2^23: rounds to an integer */
    Vector n = shifted - 12582912.0f;
    Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
    return p * (Vector)exponent;
}

/* Each row of x (rows, k) as int8, and its scale: its largest absolute value / 127. */
void zoo_quantize(const float *x, int64_t rows, int64_t k, int8_t *quantized, float *scales) {
    for (int64_t i = 0; i < rows; i++, x += k, quantized += k) {
        int32_t largest = 0; /* floats without signs are ordered as their bits are */
        for (int64_t j = 0; j < k; j++) {
            int32_t bits;
            memcpy(&bits, x + j, 4);
            bits &= 0x7fffffff;
            largest = bits > largest ? bits : largest;
        }
        float scale;
        memcpy(&scale, &largest, 4);
        scale = (scale < 1e-30f ? 1e-30f : scale) * (1.0f / 127);
        scales[i] = scale;
        const float inverse = 1.0f / scale;
        for (int64_t j = 0; j < k; j++) quantized[j] = (int8_t)(int32_t)rintf(x[j] * inverse);
    }
}

/* s_i c_ij w_j + b_j for sums c (rows, n); bias may be NULL. */
void zoo_dequantize(const int32_t *sums, int64_t rows, int64_t n, const float *scales,
                    const float *weight_scales, const float *bias, float *out) {
    for (int64_t i = 0; i < rows; i++, sums += n, out += n) {
        float scale = scales[i];
        if (bias)
            for (int64_t j = 0; j < n; j++) out[j] = sums[j] * scale * weight_scales[j] + bias[j];
        else
            for (int64_t j = 0; j < n; j++) out[j] = sums[j] * scale * weight_scales[j];
    }
}

#ifdef __AVX512VNNI__
#include <immintrin.h>

#define COLUMNS 64
#define ROWS 6

/* Pack W (n, k), k a multiple of 4, for `zoo_product`: for each 64 columns of Wᵀ, for each 4
   rows, the numbers of one column adjacent. offsets: 128 Σ_j w_ij, of inputs that are raised by it. */
int zoo_pack(const int8_t *weight, int64_t n, int64_t k, int8_t *packed, int32_t *offsets) {
    for (int64_t first = 0; first < n; first += COLUMNS)
        for (int64_t j = 0; j < k; j += 4)
            for (int64_t i = first; i < first + COLUMNS; i++, packed += 4)
                if (i < n)
                    memcpy(packed, weight + i * k + j, 4);
                else
                    memset(packed, 0, 4);
    for (int64_t i = 0; i < n; i++) {
        int32_t total = 0;
        for (int64_t j = 0; j < k; j++) total += weight[i * k + j];
        offsets[i] = 128 * total;
    }
    return 1;
}

static inline __attribute__((always_inline)) void tile(
    const int rows, const uint8_t *x, int64_t k, const int8_t *packed, const int32_t *offsets,
    const float *scales, const float *weight_scales, const float *bias, int64_t count, int64_t n,
    float *out) {
    __m512i sums[ROWS][4];
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 4; c++) sums[r][c] = _mm512_setzero_si512();
    for (int64_t j = 0; j < k; j += 4, packed += 4 * COLUMNS) {
        __m512i w[4];
        for (int c = 0; c < 4; c++) w[c] = _mm512_loadu_si512(packed + 64 * c);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, x + r * k + j, 4);
            const __m512i inputs = _mm512_set1_epi32(four);
            for (int c = 0; c < 4; c++) sums[r][c] = _mm512_dpbusd_epi32(sums[r][c], inputs, w[c]);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const int64_t left = count - 16 * c;
        const __mmask16 mask = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
        const __m512i offset = _mm512_maskz_loadu_epi32(mask, offsets + 16 * c);
        const __m512 scale = _mm512_maskz_loadu_ps(mask, weight_scales + 16 * c);
        const __m512 add = bias ? _mm512_maskz_loadu_ps(mask, bias + 16 * c) : _mm512_setzero_ps();
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            __m512 y = _mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][c], offset));
            y = _mm512_mul_ps(y, _mm512_set1_ps(scales[r]));
            _mm512_mask_storeu_ps(out + r * n + 16 * c, mask, _mm512_fmadd_ps(y, scale, add));
        }
    }
}

/* x Wᵀ + b in int8 for x (rows, k), by what `zoo_pack` returned; bias may be NULL. Returns 0 if
   there is no memory. */
int zoo_product(const float *x, int64_t rows, int64_t k, const int8_t *packed,
                const int32_t *offsets, const float *weight_scales, const float *bias, int64_t n,
                float *out) {
    uint8_t *quantized = malloc(rows * (k + sizeof(float)) + 64);
    if (!quantized) return 0;
    float *scales = (float *)quantized;
    uint8_t *inputs = quantized + rows * sizeof(float);
    zoo_quantize(x, rows, k, (int8_t *)inputs, scales);
    for (int64_t j = 0; j < rows * k; j++) inputs[j] ^= 0x80; /* raised by 128 */
    for (int64_t first = 0; first < n; first += COLUMNS) {
        const int8_t *w = packed + first * k;
        const int64_t count = n - first < COLUMNS ? n - first : COLUMNS;
        const float *b = bias ? bias + first : NULL;
        for (int64_t i = 0; i < rows; i += ROWS) {
#define TILE(size)                                                                          \
    tile(size, inputs + i * k, k, w, offsets + first, scales + i, weight_scales + first, b, \
         count, n, out + i * n + first)
            switch (rows - i) {
                case 1: TILE(1); break;
                case 2: TILE(2); break;
                case 3: TILE(3); break;
                case 4: TILE(4); break;
                case 5: TILE(5); break;
                default: TILE(ROWS);
            }
        }
    }
    free(quantized);
    return 1;
}
#else
int zoo_pack(const int8_t *weight, int64_t n, int64_t k, int8_t *packed, int32_t *offsets) {
    return 0;
}
int zoo_product(const float *x, int64_t rows, int64_t k, const int8_t *packed,
                const int32_t *offsets, const float *weight_scales, const float *bias, int64_t n,
                float *out) {
    return 0;
}
#endif

/* γ (z − mean) / √(variance + ε) + β for z = x + y, (rows, d), d a multiple of WIDTH. */
void zoo_add_norm(const float *x, const float *y, int64_t rows, int64_t d, const float *gamma,
                  const float *beta, float epsilon, float *out) {
    for (int64_t i = 0; i < rows; i++, x += d, y += d, out += d) {
        Vector total = {}, squares = {};
        for (int64_t j = 0; j < d; j += WIDTH) {
            const Vector z = load(x + j) + load(y + j);
            store(out + j, z);
            total += z;
        }
        const float mean = sum(total) / d;
        for (int64_t j = 0; j < d; j += WIDTH) {
            const Vector z = load(out + j) - mean;
            squares += z * z;
        }
        const float factor = 1.0f / sqrtf(sum(squares) / d + epsilon);
        for (int64_t j = 0; j < d; j += WIDTH)
            store(out + j, (load(out + j) - mean) * factor * load(gamma + j) + load(beta + j));
    }
}

/* Copies of a and b, shape (sentences, heads, rows, d). The strides, in numbers, of the first three
   dimensions: of a, of b, of a's copy, of b's copy. */
void zoo_store(const float *a, const float *b, float *to_a, float *to_b, const int64_t *shape,
               const int64_t *strides) {
    const int64_t *as = strides, *bs = strides + 3, *ta = strides + 6, *tb = strides + 9;
    const size_t bytes = shape[3] * sizeof(float);
    for (int64_t s = 0; s < shape[0]; s++)
        for (int64_t h = 0; h < shape[1]; h++)
            for (int64_t i = 0; i < shape[2]; i++) {
                memcpy(to_a + s * ta[0] + h * ta[1] + i * ta[2],
                       a + s * as[0] + h * as[1] + i * as[2], bytes);
                memcpy(to_b + s * tb[0] + h * tb[1] + i * tb[2],
                       b + s * bs[0] + h * bs[1] + i * bs[2], bytes);
            }
}

/* softmax(q kᵀ scale) v. The strides, in numbers, are of sentences, heads and queries or keys:
   q: shape (sentences, heads, queries, d), k and v: (sentences, heads, keys, d), out: (sentences,
   queries, heads, d), in rows. mask: bytes, strides of sentences and queries, not 0 where a query
   must not attend; or NULL. d is a multiple of WIDTH. Returns 1 if there are too many keys. */
int zoo_attend(const float *q, const float *k, const float *v, const uint8_t *mask, float *out,
               const int64_t *shape, const int64_t *strides, float scale) {
    const int64_t sentences = shape[0], heads = shape[1], queries = shape[2], keys = shape[3],
                  d = shape[4];
    const int64_t *qs = strides, *ks = strides + 3, *vs = strides + 6, *ms = strides + 9;
    float weights[MAX_KEYS + WIDTH];
    int32_t used[MAX_KEYS];
    if (keys > MAX_KEYS) return 1;
    for (int64_t s = 0; s < sentences; s++)
        for (int64_t i = 0; i < queries; i++) {
            int64_t count = 0;
            for (int64_t j = 0; j < keys; j++)
                if (!mask || !mask[s * ms[0] + i * ms[1] + j]) used[count++] = (int32_t)j;
            for (int64_t h = 0; h < heads; h++) {
                const float *query = q + s * qs[0] + h * qs[1] + i * qs[2];
                const float *key = k + s * ks[0] + h * ks[1], *value = v + s * vs[0] + h * vs[1];
                float *result = out + ((s * queries + i) * heads + h) * d;
                float largest = -INFINITY;
                for (int64_t j = 0; j < count; j++) {
                    const float *row = key + used[j] * ks[2];
                    Vector dot = {};
                    for (int64_t c = 0; c < d; c += WIDTH) dot += load(query + c) * load(row + c);
                    weights[j] = sum(dot) * scale;
                    largest = weights[j] > largest ? weights[j] : largest;
                }
                for (int64_t j = count; j < count + WIDTH; j++) weights[j] = -INFINITY;
                Vector totals = {};
                for (int64_t j = 0; j < count; j += WIDTH) {
                    Vector w = exponential(load(weights + j) - largest);
                    for (int l = 0; l < WIDTH; l++)
                        if (j + l >= count) w[l] = 0;
                    store(weights + j, w);
                    totals += w;
                }
                float factor = 1.0f / sum(totals);
                int64_t c = 0;
                for (; c + 4 * WIDTH <= d; c += 4 * WIDTH)
                    mix(value + c, vs[2], used, weights, count, factor, 4, result + c);
                for (; c + 2 * WIDTH <= d; c += 2 * WIDTH)
                    mix(value + c, vs[2], used, weights, count, factor, 2, result + c);
                for (; c < d; c += WIDTH)
                    mix(value + c, vs[2], used, weights, count, factor, 1, result + c);
            }
        }
    return 0;
}

/* The first column of each row of x (rows, n) with the largest value that is not banned, and that
   value − log Σ e^x of the whole row. */
void zoo_best(const float *x, int64_t rows, int64_t n, const int64_t *banned, int64_t bans,
              int64_t *best, float *log_prob) {
    const int64_t whole = n - n % WIDTH;
    const Ints none = (Ints){} + INT32_MAX;
    const Ints columns = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int64_t i = 0; i < rows; i++, x += n) {
        Vector most = (Vector){} - INFINITY, sums = {};
        for (int64_t j = 0; j < whole; j += WIDTH) {
            const Vector z = load(x + j);
            const Ints more = z > most;
            most = (Vector)(((Ints)z & more) | ((Ints)most & ~more));
        }
        float top = -INFINITY;
        for (int l = 0; l < WIDTH; l++) top = most[l] > top ? most[l] : top;
        for (int64_t j = whole; j < n; j++) top = x[j] > top ? x[j] : top;
        Ints first = none;
        for (int64_t j = 0; j < whole; j += WIDTH) {
            const Vector z = load(x + j);
            sums += exponential(z - top);
            const Ints equal = z == top;
            const Ints column = ((columns + (int32_t)j) & equal) | (none & ~equal);
            const Ints earlier = column < first;
            first = (column & earlier) | (first & ~earlier);
        }
        float total = sum(sums);
        int64_t at = n;
        for (int l = 0; l < WIDTH; l++) at = first[l] < at ? first[l] : at;
        for (int64_t j = whole; j < n; j++) {
            total += expf(x[j] - top);
            if (x[j] == top && at == n) at = j;
        }
        for (int64_t b = 0; b < bans; b++)
            if (banned[b] == at) at = n;
        if (at == n) /* rare: the largest is banned */
            for (int64_t j = 0; j < n; j++) {
                int allowed = at == n || x[j] > x[at];
                for (int64_t b = 0; allowed && b < bans; b++) allowed = banned[b] != j;
                if (allowed) at = j;
            }
        best[i] = at, log_prob[i] = x[at] - top - logf(total);
    }
}
