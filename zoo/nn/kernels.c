/* Steps of decoding, and the loss of training, which take several passes over memory with torch's
   operators and one or two here. `kernels.py` compiles this file when it is asked to. Plain C with
   the vector extension of GCC and Clang. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined __AMX_INT8__ && defined __AMX_BF16__ || defined __AMXINT8__ && defined __AMXBF16__ /* Clang 14 */
#if defined __AVX512VNNI__ && defined __linux__
#define TILES 1
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

/* Numbers of a vector, which fills a register, and vectors of a row of a product's tile, whose sums fill
   most of the registers: there are 32 with AVX-512, and 16 with AVX2. */
#ifdef __AVX512F__
#define WIDTH 16
#define VECTORS 4
#else
#define WIDTH 8
#define VECTORS 2
#endif
#define MAX_KEYS 4096
#define CHUNK (4 * WIDTH)
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));
#define INLINE static inline __attribute__((always_inline))

/* Clang and GCC since 12 have the first function, older versions of GCC only the second. */
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(x, ...) __builtin_shufflevector(x, x, __VA_ARGS__)
#endif
#endif
#ifndef SHUFFLE
#define SHUFFLE(x, ...) __builtin_shuffle(x, (Ints){__VA_ARGS__})
#endif

static inline Vector load(const float *from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

static inline void store(float *to, Vector x) { memcpy(to, &x, sizeof x); }

typedef uint16_t Halves __attribute__((vector_size(2 * WIDTH)));
typedef uint32_t Bits __attribute__((vector_size(4 * WIDTH)));

/* WIDTH numbers of float32 or, if `narrow`, bfloat16, which is the upper half of a float32. */
INLINE Vector load_as(int narrow, const char *from) {
    if (!narrow) return load((const float *)from);
    Halves x;
    memcpy(&x, from, sizeof x);
    return (Vector)(__builtin_convertvector(x, Bits) << 16);
}

INLINE void store_as(int narrow, char *to, Vector x) {
    if (!narrow) return store((float *)to, x);
    Bits bits = (Bits)x;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to the nearest; of two, to the even one */
    const Halves halves = __builtin_convertvector(bits, Halves);
    memcpy(to, &halves, sizeof halves);
}

/* The same for the `count` numbers at the end of a row, which may be fewer than WIDTH; the vector is
   filled with −∞. */
INLINE Vector load_end(int narrow, const char *from, int64_t count) {
    if (count >= WIDTH) return load_as(narrow, from);
    char part[4 * WIDTH] = {};
    memcpy(part, from, count * (narrow ? 2 : 4));
    Vector x = load_as(narrow, part);
    for (int64_t l = count; l < WIDTH; l++) x[l] = -INFINITY;
    return x;
}

INLINE void store_end(int narrow, char *to, int64_t count, Vector x) {
    if (count >= WIDTH) return store_as(narrow, to, x);
    char part[4 * WIDTH];
    store_as(narrow, part, x);
    memcpy(to, part, count * (narrow ? 2 : 4));
}

static inline float sum(Vector x) {
#if WIDTH == 16
    x += SHUFFLE(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    x += SHUFFLE(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    x += SHUFFLE(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
#else
    x += SHUFFLE(x, 4, 5, 6, 7, 0, 1, 2, 3);
    x += SHUFFLE(x, 2, 3, 0, 1, 6, 7, 4, 5);
#endif
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

/* The larger of a and b; b where one is not a number. */
static inline Vector maximum(Vector a, Vector b) {
#ifdef __AVX__
    __asm__("vmaxps %2, %1, %0" : "=v"(a) : "v"(a), "v"(b));
    return a;
#else
    const Ints more = a > b;
    return (Vector)(((Ints)a & more) | ((Ints)b & ~more));
#endif
}

/* e^x for x of at most 0, to 2 units of the last place: 2^n p(r) with |r| of at most ln 2 / 2. */
static inline Vector exponential(Vector x) {
    x = maximum((Vector){} - 87.0f, x);
    /* 1.5 · 2^23 rounds to an integer, whose bits are the lowest; those of n + 127 are the exponent of 2^n. */
    const float shift = 12582912.0f + 127;
    const Vector shifted = x * 1.44269504f + shift, n = shifted - shift;
    Vector r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return p * (Vector)((Ints)shifted << 23);
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

#define COLUMNS (VECTORS * WIDTH)
#define ALL_COLUMNS 64 /* of a weight's columns there are a multiple of this: some are only zeros */
#define ROWS 6
#define CACHED (VECTORS == 4 ? 262144 : 65536) /* inputs that stay in the cache: 1 MB or 256 kB */
#define MOST 8 /* vectors of a row */
#define AHEAD 4096 /* bytes; products with few rows wait for memory */
#define WIDENED (2 * ROWS + 1) /* rows of a product that first widens weights which it would widen for each block */

/* Whether there are instructions that make products fast. */
#if defined __AVX512BW__ || (defined __AVX2__ && defined __FMA__ && !defined __AVX512F__)
#define FAST 1
#else
#define FAST 0
#endif

/* The `size` of weights in float16, which are multiplied in float32: half the memory for numbers that both
   hold. That of others is their bytes. */
#define HALF 3

/* A group of weights is multiplied by 4 bytes of inputs: 1 number of float32 or float16, 2 of bfloat16, 4 of
   int8; or, without instructions for these, 2 of int8, which are widened to int16 when they are read. */
#ifdef __AVX512VNNI__
#define INT8_GROUP 4
#define RAISED 128 /* the instructions want inputs that are not negative */
#else
#define INT8_GROUP 2
#define RAISED 0
#endif

/* On Intel's processors the instruction for bfloat16 is slower than the two of float32. */
#ifdef __AVX512BF16__
#define SLOW_BF16 __builtin_cpu_is("intel")
#else
#define SLOW_BF16 0
#endif

INLINE int64_t group_of(int64_t size) { return size == 1 ? INT8_GROUP : size == 2 ? 2 : 1; }

INLINE int64_t bytes_of(int64_t size) { return size == HALF ? 2 : size; }

/* W (n, k), packed, and b. For each COLUMNS columns of Wᵀ, for each group of its rows, the group's numbers
   of one column adjacent; k is a multiple of a group's numbers. */
typedef struct {
    const char *packed;
    const int32_t *offsets; /* int8: RAISED Σ_j w_ij, of inputs that are raised */
    const float *scales;    /* int8; these two are padded to a multiple of ALL_COLUMNS */
    const float *bias;      /* or NULL */
    int64_t n, k, size;     /* size: bytes of a number, or HALF */
} Weight;

/* Weights (n, k) as `Weight` has them. */
static void pack(const char *weight, int64_t n, int64_t k, int64_t size, char *packed) {
    const int64_t bytes = group_of(size) * bytes_of(size), row = k * bytes_of(size);
    const int64_t end = (n + ALL_COLUMNS - 1) / ALL_COLUMNS * ALL_COLUMNS;
    for (int64_t first = 0; first < end; first += COLUMNS)
        for (int64_t j = 0; j < row; j += bytes)
            for (int64_t i = first; i < first + COLUMNS; i++, packed += bytes)
                if (i < n)
                    memcpy(packed, weight + i * row + j, bytes);
                else
                    memset(packed, 0, bytes);
}

/* These return 0 if the processor has no instructions for a fast product. */
int zoo_pack(const char *weight, int64_t n, int64_t k, char *packed) {
    pack(weight, n, k, 4, packed);
    return FAST;
}

int zoo_pack_half(const char *weight, int64_t n, int64_t k, char *packed) {
    pack(weight, n, k, HALF, packed);
#ifdef __F16C__
    return FAST;
#else
    return 0;
#endif
}

int zoo_pack_bf16(const char *weight, int64_t n, int64_t k, char *packed) {
    pack(weight, n, k, 2, packed);
#ifdef __AVX512BF16__
    return 1;
#else
    return 0;
#endif
}

int zoo_pack_int8(const int8_t *weight, int64_t n, int64_t k, char *packed, int32_t *offsets) {
    pack((const char *)weight, n, k, 1, packed);
    for (int64_t i = 0; i < n; i++) {
        int32_t total = 0;
        for (int64_t j = 0; j < k; j++) total += weight[i * k + j];
        offsets[i] = RAISED * total;
    }
    return FAST;
}

typedef struct {
    char bytes[2 * WIDTH];
} Narrow;

/* The groups of WIDTH columns, widened if need be: by GCC alone, it would take twice the instructions. */
INLINE Vector load_groups(const int size, const char *from) {
#if FAST
    if (size == 1 && INT8_GROUP == 2) {
        Vector wide;
        __asm__("vpmovsxbw %1, %0" : "=v"(wide) : "m"(*(const Narrow *)from));
        return wide;
    }
#endif
#ifdef __F16C__
    if (size == HALF) {
        Vector wide;
        __asm__("vcvtph2ps %1, %0" : "=v"(wide) : "m"(*(const Narrow *)from));
        return wide;
    }
#endif
    return load((const float *)from);
}

/* The products of a group of inputs with groups of weights, added to the sums. GCC's own functions for
   the instructions use too many registers. */
INLINE Vector add_products(const int size, Vector sum, Vector inputs, Vector weights) {
    if (size == 4 || size == HALF) sum += inputs * weights;
#ifdef __AVX512BF16__
    if (size == 2) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
#endif
#ifdef __AVX512VNNI__
    if (size == 1) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(inputs), "v"(weights));
#elif FAST
    if (size == 1) {
        Ints products;
        __asm__("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(inputs), "v"(weights));
        sum = (Vector)((Ints)sum + products);
    }
#endif
    return sum;
}

INLINE Vector load_inputs(const char *x, int64_t group) {
    int32_t bytes;
    memcpy(&bytes, x + 4 * group, sizeof bytes);
    return (Vector)((Ints){} + bytes);
}

/* Sums of `rows` rows of x with `wide` times COLUMNS columns, as the packed bytes say; numbers of `size`
   bytes. Blocks of rows follow one another: each prefetches its part of the next columns, `ahead`. With
   32 registers, fewer than ROWS rows are one block, which prefetches what it will soon read itself. */
INLINE void tile(const int rows, const int wide, const int size, const char *x, int64_t groups,
                 const char *packed, const char *ahead, int64_t step, Vector *out) {
    const int64_t bytes = WIDTH * group_of(size) * bytes_of(size), panel = VECTORS * bytes;
    const int vectors = VECTORS * wide;
    Vector sums[ROWS][MOST] = {}, column[VECTORS], inputs[MOST / VECTORS];
    for (int64_t j = 0; j < groups; j++, packed += panel, ahead += step)
        if (wide == 1) {
            for (int c = 0; c < VECTORS; c++) column[c] = load_groups(size, packed + c * bytes);
            if (VECTORS == 2 || rows == ROWS) __builtin_prefetch(ahead);
            for (int c = 0; VECTORS == 4 && rows < ROWS && 64 * c < panel; c++)
                __builtin_prefetch(packed + AHEAD + 64 * c);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const Vector input = load_inputs(x, r * groups + j);
#pragma GCC unroll 4
                for (int c = 0; c < VECTORS; c++)
                    sums[r][c] = add_products(size, sums[r][c], input, column[c]);
            }
        } else {
#pragma GCC unroll 3
            for (int r = 0; r < rows; r++) inputs[r] = load_inputs(x, r * groups + j);
#pragma GCC unroll 8
            for (int c = 0; c < vectors; c++) {
                const char *from = packed + c / VECTORS * groups * panel + c % VECTORS * bytes;
                if (c % VECTORS == 0) __builtin_prefetch(from + wide * groups * panel);
                column[0] = load_groups(size, from);
#pragma GCC unroll 3
                for (int r = 0; r < rows; r++)
                    sums[r][c] = add_products(size, sums[r][c], inputs[r], column[0]);
            }
        }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int c = 0; c < vectors; c++) out[vectors * r + c] = sums[r][c];
}

/* With 16 registers, the tiles of few rows are wide: few sums would wait for one another. */
INLINE int wide_of(int64_t rows) { return VECTORS == 4 || rows > 3 ? 1 : rows > 1 ? 2 : 4; }

INLINE void multiply_as(const int size, int64_t rows, int wide, const char *x, int64_t groups,
                        const char *packed, const char *ahead, int64_t step, Vector *sums) {
#if VECTORS == 2
    if (wide == 4) return tile(1, 4, size, x, groups, packed, ahead, step, sums);
    if (wide == 2 && rows == 2) return tile(2, 2, size, x, groups, packed, ahead, step, sums);
    if (wide == 2) return tile(3, 2, size, x, groups, packed, ahead, step, sums);
#endif
    switch (rows) {
        case 1: return tile(1, 1, size, x, groups, packed, ahead, step, sums);
        case 2: return tile(2, 1, size, x, groups, packed, ahead, step, sums);
        case 3: return tile(3, 1, size, x, groups, packed, ahead, step, sums);
        case 4: return tile(4, 1, size, x, groups, packed, ahead, step, sums);
        case 5: return tile(5, 1, size, x, groups, packed, ahead, step, sums);
        default: return tile(ROWS, 1, size, x, groups, packed, ahead, step, sums);
    }
}

static void multiply(int64_t rows, int wide, const char *x, const Weight *w, const char *packed,
                     const char *ahead, int64_t step, Vector *sums) {
    const int64_t groups = w->k / group_of(w->size);
    if (w->size == 1)
        multiply_as(1, rows, wide, x, groups, packed, ahead, step, sums);
    else if (w->size == 2)
        multiply_as(2, rows, wide, x, groups, packed, ahead, step, sums);
    else if (w->size == HALF)
        multiply_as(HALF, rows, wide, x, groups, packed, ahead, step, sums);
    else
        multiply_as(4, rows, wide, x, groups, packed, ahead, step, sums);
}

/* Scales, bias and `relu` for what a tile returned: COLUMNS columns from `first` on. */
INLINE void finish_whole(const int size, const Vector *sums, int64_t rows, const Weight *w,
                         const float *row_scales, int64_t first, int64_t relu, float *out) {
    Vector bias[VECTORS], scales[VECTORS], offsets[VECTORS];
    const Vector least = (Vector){} - (relu ? 0 : INFINITY);
    const int64_t n = w->n;
    for (int c = 0; c < VECTORS; c++) {
        bias[c] = w->bias ? load(w->bias + first + WIDTH * c) : (Vector){};
        if (size == 1) scales[c] = load(w->scales + first + WIDTH * c);
        if (size == 1) offsets[c] = load((const float *)w->offsets + first + WIDTH * c);
    }
    out += first;
    for (int64_t r = 0; r < rows; r++, sums += VECTORS, out += n)
#pragma GCC unroll 4
        for (int c = 0; c < VECTORS; c++) {
            Vector y = sums[c];
            if (size == 1)
                y = __builtin_convertvector((Ints)y - (Ints)offsets[c], Vector) * (scales[c] * row_scales[r]);
            store(out + WIDTH * c, maximum(least, y + bias[c]));
        }
}

/* The same for `vectors` of each row, of which columns may be missing. */
static void finish(const Vector *sums, int64_t rows, int vectors, const Weight *w,
                   const float *row_scales, int64_t first, int64_t relu, float *out) {
    const int whole = vectors == VECTORS && first + COLUMNS <= w->n;
    if (whole && w->size == 1) return finish_whole(1, sums, rows, w, row_scales, first, relu, out);
    if (whole) return finish_whole(4, sums, rows, w, row_scales, first, relu, out);
    for (int64_t r = 0; r < rows; r++, out += w->n)
        for (int c = 0; c < vectors; c++) {
            const int64_t column = first + WIDTH * c;
            Vector y = *sums++;
            if (w->size == 1) {
                const Ints offsets = (Ints)load((const float *)w->offsets + column);
                y = __builtin_convertvector((Ints)y - offsets, Vector);
                y *= row_scales[r] * load(w->scales + column);
            }
            for (int64_t l = 0; l < WIDTH && column + l < w->n; l++) {
                const float z = y[l] + (w->bias ? w->bias[column + l] : 0.0f);
                out[column + l] = relu && z < 0.0f ? 0.0f : z;
            }
        }
}

/* The bytes of the scales of rows of int8, before the rows: whole lines of the cache. */
INLINE int64_t scales_of(int64_t rows, int64_t size) { return size == 1 ? (rows + 15) / 16 * 64 : 0; }

/* x (rows, k) as `tile` reads it, in memory that the caller frees, with the scales of its rows first if
   the weights are int8; NULL if there is none. */
static char *narrowed(const float *x, int64_t rows, int64_t k, int64_t size) {
    const int64_t before = scales_of(rows, size), bytes = 4 / group_of(size);
    const int64_t count = rows * k, widened = bytes > size ? count * bytes : 0;
    char *inputs = aligned_alloc(64, (before + count * size + widened) / 64 * 64 + 128);
    if (inputs && size == 1) {
        char *row = inputs + before;
        int8_t *quantized = (int8_t *)row + widened; /* behind the int16 that it is widened to, if it is */
        zoo_quantize(x, rows, k, quantized, (float *)inputs);
        if (widened)
            for (int64_t j = 0; j < count; j++) {
                const int16_t wide = quantized[j];
                memcpy(row + 2 * j, &wide, sizeof wide);
            }
        else
            for (int64_t j = 0; j < count; j++) row[j] ^= RAISED; /* adds it */
    } else if (inputs) {
        int64_t j = 0;
        for (; j + WIDTH <= count; j += WIDTH) store_as(1, inputs + 2 * j, load(x + j));
        store_end(1, inputs + 2 * j, count - j, load_end(0, (const char *)(x + j), count - j));
    }
    return inputs;
}

/* Weights of COLUMNS columns in float16, or in bfloat16 in groups of two, as float32. */
static void widen(const char *packed, int64_t k, int64_t size, float *to) {
    if (size == HALF)
        for (int64_t j = 0; j < k * COLUMNS; j += WIDTH, packed += 2 * WIDTH, to += WIDTH)
            store(to, load_groups(HALF, packed));
    else
        for (int64_t j = 0; j < k / 2; j++, to += 2 * COLUMNS)
            for (int c = 0; c < VECTORS; c++, packed += 4 * WIDTH) {
                Bits pair;
                memcpy(&pair, packed, sizeof pair);
                store(to + WIDTH * c, (Vector)(pair << 16));
                store(to + COLUMNS + WIDTH * c, (Vector)(pair & 0xffff0000));
            }
}

/* The same product for weights that are first widened to float32, and inputs that are rounded as the
   weights are if these are in bfloat16. */
static int widened_product(const float *x, int64_t rows, const Weight *w, int64_t relu, float *out) {
    const int64_t k = w->k, count = w->size == 2 ? rows * k : 0, fit = CACHED / k / ROWS;
    const int64_t most = ROWS * (fit ? fit : 1);
    char *rounded = count ? narrowed(x, rows, k, 2) : NULL;
    float *own = aligned_alloc(64, 4 * (COLUMNS * k + (count + 15) / 16 * 16));
    if ((count && !rounded) || !own) return free(rounded), free(own), 0;
    float *weights = own + (count + 15) / 16 * 16;
    for (int64_t j = 0; j < count; j += WIDTH) store(own + j, load_as(1, rounded + 2 * j));
    free(rounded);
    const float *inputs = count ? own : x;
    const Weight wide = {.bias = w->bias, .n = w->n, .k = k, .size = 4};
    Vector sums[ROWS * MOST];
    for (int64_t start = 0; start < rows; start += most) {
        const int64_t end = rows - start < most ? rows : start + most;
        for (int64_t first = 0; first < w->n; first += COLUMNS) {
            widen(w->packed + 2 * first * k, k, w->size, weights);
            for (int64_t i = start; i < end; i += ROWS) {
                const int64_t some = end - i < ROWS ? end - i : ROWS;
                const char *from = (const char *)(inputs + i * k), *packed = (const char *)weights;
                multiply(some, 1, from, &wide, packed, packed, 0, sums);
                finish(sums, some, VECTORS, &wide, NULL, first, relu, out + i * w->n);
            }
        }
    }
    free(own);
    return 1;
}

/* The matrix unit of Intel's processors, AMX, multiplies tiles: up to 16 rows of 64 bytes by 16 groups of
   16 columns. */
#define TILE_BYTES 64
#define TILE_ROWS 16
#define STEP (TILE_ROWS * COLUMNS * 4) /* bytes from one tile of packed weights to the one below it */
#define LINE (COLUMNS * 4)             /* and of a row of sums, or from one group of weights to the next */
#define FEWEST_TILED 3                 /* rows; fewer are multiplied as fast by other instructions */

static int has_tiles = 0;

int zoo_has_tiles(void) { return has_tiles; }

#ifdef TILES
/* The system lets a process use the unit if it asks; 18 is the number of the tiles' state. */
__attribute__((constructor)) static void ask_for_tiles(void) {
    has_tiles = !syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18);
}

/* What tiles are loaded from is written before: GCC's functions for them do not say what they read. */
#define WRITTEN(memory) __asm__ volatile("" : : "r"(memory) : "memory")

/* Tiles 0 to 3 are sums, 4 and 5 inputs, 6 and 7 weights. Of two rows of tiles, 2, 3 and 5 are the second;
   of one, 5 and 7 are the last `rest` bytes of a row of inputs, and what they are multiplied by. */
static void configure(int64_t first, int64_t second, int64_t rest) {
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        const int is_second = second && (t == 2 || t == 3 || t == 5);
        shapes.bytes[t] = rest && t == 5 ? rest : TILE_BYTES;
        shapes.rows[t] = t > 5 ? (rest && t == 7 ? rest / 4 : TILE_ROWS) : is_second ? second : first;
    }
    WRITTEN(&shapes);
    _tile_loadconfig(&shapes);
}

/* Tiles have numbers, not names. */
#define NO_SUMS() \
    do { \
        _tile_zero(0); \
        _tile_zero(1); \
        _tile_zero(2); \
        _tile_zero(3); \
    } while (0)
#define ADD_TILES(sums, inputs, weights) \
    do { \
        if (size == 1) \
            _tile_dpbusd(sums, inputs, weights); \
        else \
            _tile_dpbf16ps(sums, inputs, weights); \
    } while (0)
#define ADD_COLUMNS(inputs, weights) \
    do { \
        _tile_loadd(weights, packed, LINE); \
        ADD_TILES(0, inputs, weights); \
        _tile_loadd(weights, packed + TILE_BYTES, LINE); \
        ADD_TILES(1, inputs, weights); \
        _tile_loadd(weights, packed + 2 * TILE_BYTES, LINE); \
        ADD_TILES(2, inputs, weights); \
        _tile_loadd(weights, packed + 3 * TILE_BYTES, LINE); \
        ADD_TILES(3, inputs, weights); \
    } while (0)

/* Sums of up to TILE_ROWS rows, of so many bytes, with COLUMNS columns. */
INLINE void one_row_of_tiles(const int size, const char *x, int64_t bytes, const char *packed, char *sums) {
    int64_t j = 0;
    NO_SUMS();
    for (; j + TILE_BYTES <= bytes; j += TILE_BYTES, packed += STEP) {
        _tile_loadd(4, x + j, bytes);
        ADD_COLUMNS(4, 6);
    }
    if (j < bytes) {
        _tile_loadd(5, x + j, bytes);
        ADD_COLUMNS(5, 7);
    }
    _tile_stored(0, sums, LINE);
    _tile_stored(1, sums + TILE_BYTES, LINE);
    _tile_stored(2, sums + 2 * TILE_BYTES, LINE);
    _tile_stored(3, sums + 3 * TILE_BYTES, LINE);
}

/* The same for more rows, of whole tiles, and half of the columns. */
INLINE void two_rows_of_tiles(const int size, const char *x, int64_t bytes, const char *packed, char *sums) {
    const char *second = x + TILE_ROWS * bytes;
    NO_SUMS();
    for (int64_t j = 0; j < bytes; j += TILE_BYTES, packed += STEP) {
        _tile_loadd(4, x + j, bytes);
        _tile_loadd(6, packed, LINE);
        _tile_loadd(7, packed + TILE_BYTES, LINE);
        ADD_TILES(0, 4, 6);
        ADD_TILES(1, 4, 7);
        _tile_loadd(5, second + j, bytes);
        ADD_TILES(2, 5, 6);
        ADD_TILES(3, 5, 7);
    }
    _tile_stored(0, sums, LINE);
    _tile_stored(1, sums + TILE_BYTES, LINE);
    sums += TILE_ROWS * LINE;
    _tile_stored(2, sums, LINE);
    _tile_stored(3, sums + TILE_BYTES, LINE);
}

INLINE void multiply_tiles(const int size, int two, const char *x, int64_t bytes, const char *packed,
                           char *sums) {
    if (!two) return one_row_of_tiles(size, x, bytes, packed, sums);
    two_rows_of_tiles(size, x, bytes, packed, sums);
    two_rows_of_tiles(size, x, bytes, packed + 2 * TILE_BYTES, sums + 2 * TILE_BYTES);
}

/* The product of `rows` rows of inputs, as `narrowed` returned them. Blocks of rows are equally high; the
   last one overlaps the one before it. */
static void tiled_product(const char *inputs, int64_t rows, const Weight *w, const float *scales,
                          int64_t relu, float *out) {
    const int64_t bytes = w->k * w->size, rest = bytes % TILE_BYTES, most = rest ? TILE_ROWS : 2 * TILE_ROWS;
    const int64_t blocks = (rows + most - 1) / most, high = (rows + blocks - 1) / blocks;
    const int two = high > TILE_ROWS;
    Vector sums[2 * TILE_ROWS * VECTORS];
    configure(two ? TILE_ROWS : high, two ? high - TILE_ROWS : 0, rest);
    WRITTEN(inputs);
    for (int64_t first = 0; first < w->n; first += COLUMNS)
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t i = (b + 1) * high > rows ? rows - high : b * high;
            const char *x = inputs + i * bytes, *packed = w->packed + first * bytes;
            if (w->size == 1)
                multiply_tiles(1, two, x, bytes, packed, (char *)sums);
            else
                multiply_tiles(2, two, x, bytes, packed, (char *)sums);
            finish(sums, high, VECTORS, w, scales + i, first, relu, out + i * w->n);
        }
    _tile_release();
}
#else
static void tiled_product(const char *inputs, int64_t rows, const Weight *w, const float *scales,
                          int64_t relu, float *out) {
    (void)inputs, (void)rows, (void)w, (void)scales, (void)relu, (void)out; /* has_tiles is 0 */
}
#endif

/* x Wᵀ + b for x (rows, k), and its positive part if `relu`. Returns 0 if there is no memory. */
int zoo_product(const float *x, int64_t rows, const Weight *w, int64_t relu, float *out) {
    const int tiled = has_tiles && rows >= FEWEST_TILED && w->size <= 2;
    if (rows >= WIDENED && (w->size == HALF || (SLOW_BF16 && !tiled && w->size == 2)))
        return widened_product(x, rows, w, relu, out);
    const int64_t k = w->k, group = group_of(w->size), row = 4 * (k / group);
    const int64_t fit = CACHED / k / ROWS, limit = ROWS * (fit ? fit : 1);
    const int64_t parts = (rows + limit - 1) / limit + !rows;
    const int64_t most = ((rows + parts - 1) / parts + ROWS - 1) / ROWS * ROWS;
    const int64_t bytes = COLUMNS * bytes_of(w->size), panel = bytes * group;
    Vector sums[ROWS * MOST];
    char *own = NULL;
    if (group > 1 && !(own = narrowed(x, rows, k, w->size))) return 0;
    const float *scales = (const float *)own;
    const char *inputs = own ? own + scales_of(rows, w->size) : (const char *)x;
    for (int64_t start = 0; start < rows; start += most) {
        const int64_t end = rows - start < most ? rows : start + most;
        if (tiled) {
            tiled_product(inputs + start * row, end - start, w, scales + start, relu, out + start * w->n);
            continue;
        }
        const int64_t blocks = (end - start + ROWS - 1) / ROWS, step = panel / blocks;
        const int64_t block = VECTORS == 4 ? ROWS : (end - start + blocks - 1) / blocks;
        const int wide = wide_of(end - start);
        const char *packed = w->packed;
        for (int64_t first = 0; first < w->n; first += wide * COLUMNS, packed += wide * bytes * k) {
            const char *ahead = packed + bytes * k;
            for (int64_t i = start; i < end; i += block, ahead += step * (k / group)) {
                const int64_t count = end - i < block ? end - i : block;
                multiply(count, wide, inputs + i * row, w, packed, ahead, step, sums);
                finish(sums, count, VECTORS * wide, w, scales + i, first, relu, out + i * w->n);
            }
        }
    }
    free(own);
    return 1;
}

/* γ (z − mean) / √(variance + ε) + β for z = x + y, (rows, d), d a multiple of WIDTH. y may be NULL
   for zeros; out may be y. */
void zoo_add_norm(const float *x, const float *y, int64_t rows, int64_t d, const float *gamma,
                  const float *beta, float epsilon, float *out) {
    for (int64_t i = 0; i < rows; i++, x += d, out += d) {
        Vector total = {}, squares = {};
        for (int64_t j = 0; j < d; j += WIDTH) {
            const Vector z = y ? load(x + j) + load(y + i * d + j) : load(x + j);
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

/* A copy of stored keys or values, (…, heads, old capacity, old beam, d), for other rows: (sentences,
   heads, capacity, beam, d), of which `length` positions are written. sentence (sentences × beam): of
   each row in the old storage; origin (sentences × beam, length): the hypothesis of its beam. shape:
   those of the copy, then length, the old capacity and the old beam. */
void zoo_select(const float *from, float *to, const int64_t *shape, const int64_t *sentence,
                const int64_t *origin) {
    const int64_t heads = shape[1], capacity = shape[2], beam = shape[3], d = shape[4];
    const int64_t length = shape[5], old_capacity = shape[6], old_beam = shape[7];
    for (int64_t s = 0; s < shape[0]; s++)
        for (int64_t h = 0; h < heads; h++, to += (capacity - length) * beam * d)
            for (int64_t p = 0; p < length; p++)
                for (int64_t row = s * beam; row < (s + 1) * beam; row++, to += d) {
                    const int64_t at = (sentence[row] * heads + h) * old_capacity + p;
                    memcpy(to, from + (at * old_beam + origin[row * length + p]) * d, d * sizeof *to);
                }
}

/* softmax(q kᵀ scale) v. The strides, in numbers, are of sentences, heads and queries or keys:
   q: shape (sentences, heads, queries, d), k and v: (sentences, heads, keys, d), out: (sentences,
   queries, heads, d), in rows. mask: bytes, strides of sentences and queries, not 0 where a query
   must not attend; or NULL. slots: the sentence of k and v that each is; or NULL. d is a multiple of
   WIDTH. Returns 1 if there are too many keys. */
int zoo_attend(const float *q, const float *k, const float *v, const uint8_t *mask, const int64_t *slots,
               float *out, const int64_t *shape, const int64_t *strides, float scale) {
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
                const int64_t slot = slots ? slots[s] : s;
                const float *key = k + slot * ks[0] + h * ks[1], *value = v + slot * vs[0] + h * vs[1];
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

/* f(x) with its residual connection: x + last(…first(norm(x))…) if `pre`, or the norm of
   x + last(…first(x)…). */
typedef struct {
    Weight first, last;
    const float *gamma, *beta;
    float epsilon;
    int32_t pre;
} Sublayer;

/* The first product, of x (rows, d). `normed` has room for x. */
static int begin(const Sublayer *s, const float *x, int64_t rows, int64_t relu, float *normed,
                 float *out) {
    if (s->pre) zoo_add_norm(x, NULL, rows, s->first.k, s->gamma, s->beta, s->epsilon, normed);
    return zoo_product(s->pre ? normed : x, rows, &s->first, relu, out);
}

/* The last product, of y, and the residual connection. */
static int end(const Sublayer *s, const float *x, int64_t rows, const float *y, float *out) {
    const int64_t d = s->last.n;
    if (!zoo_product(y, rows, &s->last, 0, out)) return 0;
    if (s->pre)
        for (int64_t j = 0; j < rows * d; j++) out[j] += x[j];
    else
        zoo_add_norm(x, out, rows, d, s->gamma, s->beta, s->epsilon, out);
    return 1;
}

/* A feed-forward sublayer, f(x) = W_2 max(0, W_1 x + b_1) + b_2. Returns 0 if there is no memory. */
int zoo_feedforward(const Sublayer *s, const float *x, int64_t rows, float *out) {
    float *inner = malloc(rows * s->first.n * sizeof(float) + 64);
    const int done = inner && begin(s, x, rows, 1, out, inner) && end(s, x, rows, inner, out);
    free(inner);
    return done;
}

/* An attention sublayer. `first` projects to queries, or to queries, keys and values: these are
   stored in `keys` and `values` from `position` on, or are all there are if `keys` is NULL. shape:
   (sentences, heads, queries, keys, d); strides as of `zoo_attend`, without the query's; slots as
   there. Returns 0 if there is no memory or too many keys. */
int zoo_attention(const Sublayer *s, const float *x, float *keys, float *values,
                  const uint8_t *mask, const int64_t *slots, const int64_t *shape,
                  const int64_t *strides, int64_t position, float *out) {
    const int64_t heads = shape[1], queries = shape[2], d = shape[4], rows = shape[0] * queries;
    const int64_t n = s->first.n, all = s->last.k;
    float *projected = malloc(rows * (n + all) * sizeof(float) + 64), *attended = projected + rows * n;
    if (!projected || !begin(s, x, rows, 0, attended, projected)) {
        free(projected);
        return 0;
    }
    int64_t every[11] = {queries * n, d, n};
    memcpy(every + 3, strides, 8 * sizeof *strides);
    if (!keys) {
        keys = projected + all, values = keys + all;
        memcpy(every + 3, every, 3 * sizeof *every), memcpy(every + 6, every, 3 * sizeof *every);
    } else if (n > all) {
        const float *k = projected + all, *v = k + all;
        const int64_t *to = strides;
        for (int64_t i = 0; i < rows; i++, k += n, v += n)
            for (int64_t h = 0; h < heads; h++) {
                const int64_t at = position + i % queries, row = slots ? slots[i / queries] : i / queries;
                memcpy(keys + row * to[0] + h * to[1] + at * to[2], k + h * d, d * sizeof *k);
                memcpy(values + row * to[3] + h * to[4] + at * to[5], v + h * d, d * sizeof *v);
            }
    }
    const int done = !zoo_attend(projected, keys, values, mask, slots, attended, shape, every,
                                 1.0f / sqrtf(d)) &&
                     end(s, x, rows, attended, out);
    free(projected);
    return done;
}

/* What the attentions of all layers share: (sentences, heads, queries, keys, d), the strides of
   `zoo_attend` without the query's, the mask and the slots. */
typedef struct {
    int64_t shape[5], strides[8];
    const uint8_t *mask;
    const int64_t *slots;
} Scope;

typedef struct {
    Sublayer attention, cross, feedforward; /* an encoder's have no cross */
} Layer;

/* An encoder or a decoder: the embedding (vocab, d) and its factor; the layers; the norm after them, if
   gamma is not NULL; and the products that follow. */
typedef struct {
    const float *embedding, *gamma, *beta;
    const Layer *layers;
    const Weight *outputs;
    int64_t vocab, layer_count, output_count;
    float factor, epsilon;
} Stack;

/* The embeddings of tokens, (rows, d), each with one of the `positions`, (n, d), in turn, unless they
   are NULL; in memory for four times as many numbers, which the caller frees. NULL if there is none, or
   if a token is not in the vocabulary: then `wrong` is set. */
static float *embed(const Stack *m, const int64_t *tokens, int64_t rows, const float *positions,
                    int64_t n, int *wrong) {
    const int64_t d = m->outputs->k;
    for (int64_t i = 0; i < rows; i++)
        if ((*wrong = tokens[i] < 0 || tokens[i] >= m->vocab)) return NULL;
    float *x = malloc(4 * rows * d * sizeof(float) + 64);
    for (int64_t i = 0; x && i < rows; i++) {
        const float *row = m->embedding + tokens[i] * d;
        for (int64_t j = 0; j < d; j++) x[i * d + j] = row[j] * m->factor;
        for (int64_t j = 0; positions && j < d; j++) x[i * d + j] += positions[i % n * d + j];
    }
    return x;
}

/* The logits after one more position, (sentences × queries, outputs), of which `tokens` are read.
   position: what is added to their embeddings, (d), or NULL. stored: of each layer, the prefix's keys
   and values, which are written from `start` on, and the source's. Returns 0 if there is no memory or
   too many keys, and −1 if a token is not in the vocabulary. */
int zoo_decoder(const Stack *m, const int64_t *tokens, const float *position, float *const *stored,
                const Scope *prefix, const Scope *source, int64_t start, float *logits) {
    const int64_t rows = prefix->shape[0] * prefix->shape[2], size = rows * m->outputs->k;
    int wrong = 0;
    float *x = embed(m, tokens, rows, position, 1, &wrong), *y = x + size, *z = y + size;
    if (!x) return -wrong;
    int done = 1;
    for (const Layer *l = m->layers; done && l < m->layers + m->layer_count; l++, stored += 4)
        done = zoo_attention(&l->attention, x, stored[0], stored[1], prefix->mask, prefix->slots,
                             prefix->shape, prefix->strides, start, y) &&
               zoo_attention(&l->cross, y, stored[2], stored[3], source->mask, source->slots,
                             source->shape, source->strides, 0, z) &&
               zoo_feedforward(&l->feedforward, z, rows, x);
    if (m->gamma) zoo_add_norm(x, NULL, rows, m->outputs->k, m->gamma, m->beta, m->epsilon, x);
    done = done && zoo_product(x, rows, m->outputs, 0, logits);
    free(x);
    return done;
}

/* The keys and values of each product of an encoder's output: after one another, (sentences, heads, n,
   d) each. tokens: (sentences, n); positions: (n, d), or NULL. Returns as `zoo_decoder`. */
int zoo_encoder(const Stack *m, const int64_t *tokens, const float *positions, const Scope *own,
                float *memory) {
    const int64_t sentences = own->shape[0], heads = own->shape[1], n = own->shape[2];
    const int64_t rows = sentences * n, d = m->outputs->k, of_head = own->shape[4];
    int wrong = 0;
    float *x = embed(m, tokens, rows, positions, n, &wrong), *y = x + rows * d;
    if (!x) return -wrong;
    int done = 1;
    for (const Layer *l = m->layers; done && l < m->layers + m->layer_count; l++)
        done = zoo_attention(&l->attention, x, NULL, NULL, own->mask, NULL, own->shape, own->strides, 0,
                             y) &&
               zoo_feedforward(&l->feedforward, y, rows, x);
    if (m->gamma) zoo_add_norm(x, NULL, rows, d, m->gamma, m->beta, m->epsilon, x);
    for (int64_t o = 0; done && o < m->output_count; o++) {
        done = zoo_product(x, rows, m->outputs + o, 0, y);
        for (int part = 0; done && part < 2; part++)
            for (int64_t s = 0; s < sentences; s++)
                for (int64_t h = 0; h < heads; h++)
                    for (int64_t i = 0; i < n; i++, memory += of_head)
                        memcpy(memory, y + ((s * n + i) * 2 + part) * d + h * of_head,
                               of_head * sizeof *memory);
    }
    free(x);
    return done;
}

/* A bit for each number of x that is not at most `most`. */
static inline uint32_t above(Vector x, float most) {
    const Vector all = (Vector){} + most;
    uint32_t bits = 0;
#ifdef __AVX512F__
    __asm__("vcmpps $22, %2, %1, %%k1\n\tkmovw %%k1, %0" : "=r"(bits) : "v"(x), "v"(all) : "k1");
#elif defined __AVX__
    Ints more;
    __asm__("vcmpps $22, %3, %2, %1\n\tvmovmskps %1, %0" : "=r"(bits), "=&v"(more) : "v"(x), "v"(all));
#else
    for (int l = 0; l < WIDTH; l++) bits |= (uint32_t)!(x[l] <= most) << l;
#endif
    return bits;
}

/* The largest of n numbers; in `maxima`, WIDTH for every whole chunk: the largest of each lane of its
   vectors. */
static float largest(const float *x, int64_t n, float *maxima) {
    const int64_t whole = n - n % CHUNK;
    Vector most = (Vector){} - INFINITY;
    for (int64_t j = 0; j < whole; j += CHUNK) {
        const Vector first = maximum(load(x + j), load(x + j + WIDTH));
        const Vector last = maximum(load(x + j + 2 * WIDTH), load(x + j + 3 * WIDTH));
        const Vector all = maximum(first, last);
        store(maxima + j / 4, all);
        most = maximum(all, most);
    }
    float top = -INFINITY;
    for (int l = 0; l < WIDTH; l++) top = most[l] > top ? most[l] : top;
    for (int64_t j = whole; j < n; j++) top = x[j] > top ? x[j] : top;
    return top;
}

/* log Σ e^(x − top), x of n numbers; prefetches as many others, which are read next. */
static float log_sum(const float *x, int64_t n, float top, const float *next) {
    const int64_t whole = n - n % WIDTH;
    Vector sums = {};
    for (int64_t j = 0; j < whole; j += WIDTH) {
        __builtin_prefetch(next + j, 0, 2);
        sums += exponential(load(x + j) - top);
    }
    float total = sum(sums);
    for (int64_t j = whole; j < n; j++) total += expf(x[j] - top);
    return logf(total);
}

/* The k best continuations of each sentence's prefixes, best first; of equal ones the earlier
   prefix's, then the lower column's: their scores (sentences, k), prefixes and columns. x: (sentences,
   width, n), logits, or log probabilities if `normalized`; score: (sentences, width), −∞ for prefixes
   that have no continuation. What is missing has the score −∞, prefix 0 and column `none`. If a score
   is not a number, neither is the sentence's best one; logits are read only of prefixes that are better
   than k continuations of earlier ones. */
void zoo_continue(const float *x, const float *score, const int64_t *shape, int64_t normalized,
                  const int64_t *banned, int64_t bans, int64_t none, float *best, int64_t *parent,
                  int64_t *token) {
    const int64_t sentences = shape[0], width = shape[1], n = shape[2], k = shape[3];
    float *maxima = normalized ? NULL : malloc((n / CHUNK + 1) * WIDTH * sizeof *maxima);
    const float *last = score + sentences * width;
    for (int64_t s = 0; s < sentences; s++, best += k, parent += k, token += k) {
        int broken = 0;
        for (int64_t i = 0; i < k; i++) best[i] = -INFINITY, parent[i] = 0, token[i] = none;
        for (int64_t slot = 0; slot < width; slot++, x += n, score++) {
            if (!(*score > (normalized ? -INFINITY : best[k - 1]))) continue;
            const float top = normalized ? 0 : largest(x, n, maxima);
            int64_t ahead = 1;
            while (score + ahead < last && !(score[ahead] > -INFINITY)) ahead++;
            const float base = *score - (normalized ? 0 : log_sum(x, n, top, x + ahead * n));
            for (int64_t first = 0; first < n; first += WIDTH) {
                if (maxima && first % CHUNK == 0 && first + CHUNK <= n && /* base is not a number if */
                    !above((load(maxima + first / 4) - top) + base, best[k - 1])) { /* one of x is not */
                    first += CHUNK - WIDTH;
                    continue;
                }
                const Vector part = load_end(0, (const char *)(x + first), n - first);
                uint32_t better = above((part - top) + base, best[k - 1]);
                for (; better; better &= better - 1) {
                    const int64_t j = first + __builtin_ctz(better);
                    const float y = (x[j] - top) + base;
                    int allowed = !(y <= best[k - 1]);
                    for (int64_t b = 0; allowed && b < bans; b++) allowed = banned[b] != j;
                    if (!allowed) continue;
                    if (y != y) {
                        broken = 1;
                        continue;
                    }
                    int64_t at = k - 1;
                    for (; at > 0 && y > best[at - 1]; at--)
                        best[at] = best[at - 1], parent[at] = parent[at - 1], token[at] = token[at - 1];
                    best[at] = y, parent[at] = slot, token[at] = j;
                }
            }
        }
        if (broken) best[0] = NAN;
    }
    free(maxima);
}

/* `count` steps of `zoo_decoder`, or fewer: until the best token of a row is `end`. Each step reads the
   tokens before it, (rows), of `tokens`, (count + 1, rows), and writes the best ones after them, and
   their log probabilities into `scores`, (count, rows). positions: (count, d), or NULL. One row a
   sentence; logits and rows are memory, (rows, n) and (rows). Returns the steps taken, or the result of
   the one that failed. */
int zoo_greedy(const Stack *m, int64_t *tokens, const float *positions, float *const *stored,
               const Scope *prefix, const Scope *source, int64_t start, int64_t count,
               const int64_t *banned, int64_t bans, int64_t end, float *logits, int64_t *rows,
               float *scores) {
    const int64_t sentences = prefix->shape[0], shape[4] = {sentences, 1, m->outputs->n, 1};
    float *none = calloc(sentences, sizeof *none);
    Scope own = *prefix;
    int taken = 0, ended = 0, done = none != NULL;
    while (done > 0 && taken < count && !ended) {
        const float *position = positions ? positions + taken * m->outputs->k : NULL;
        own.shape[3] = start + taken + 1;
        done = zoo_decoder(m, tokens, position, stored, &own, source, start + taken, logits);
        if (done <= 0) break;
        tokens += sentences;
        zoo_continue(logits, none, shape, 0, banned, bans, end, scores, rows, tokens);
        for (int64_t s = 0; s < sentences; s++) ended |= tokens[s] == end;
        scores += sentences;
        taken++;
    }
    free(none);
    return done > 0 ? taken : done;
}

/* Lets each row of a beam continue another one: `origin`, (sentences, beam, capacity), says for each
   position of a row which row of its sentence wrote it. `spare` is memory for a sentence's. */
static void reorder(int64_t *origin, const int64_t *parents, int64_t sentences, int64_t beam,
                    int64_t capacity, int64_t length, int64_t *spare) {
    for (int64_t s = 0; s < sentences; s++, origin += beam * capacity, parents += beam) {
        for (int64_t i = 0; i < beam; i++)
            memcpy(spare + i * length, origin + parents[i] * capacity, length * sizeof *spare);
        for (int64_t i = 0; i < beam; i++)
            memcpy(origin + i * capacity, spare + i * length, length * sizeof *spare);
    }
}

/* `count` steps of `zoo_decoder` with a beam, or fewer: until one of the best continuations ends, or
   there are too few. Each step but the last is continued with the best tokens after it, whose prefixes
   are `parents`, as in `zoo_continue`, and whose scores replace `score`, (sentences, beam); it reads the
   tokens before it, (rows), of `tokens`, (count, rows). origin: as in `reorder`, each position that is
   still to be read with the row's own number; mask: memory for what is not read, (sentences, beam,
   capacity × beam). Returns as `zoo_greedy`, with the last step's logits. */
int zoo_beam(const Stack *m, int64_t *tokens, const float *positions, float *const *stored,
             const Scope *prefix, const Scope *source, int64_t start, int64_t count,
             const int64_t *banned, int64_t bans, int64_t end, float *score, int64_t *parents,
             int64_t *origin, int64_t capacity, uint8_t *mask, float *logits) {
    const int64_t sentences = prefix->shape[0], beam = prefix->shape[2], rows = sentences * beam;
    const int64_t shape[4] = {sentences, beam, m->outputs->n, beam}, width = capacity * beam;
    int64_t *spare = malloc(width * sizeof *spare + rows * sizeof *score);
    float *best = (float *)(spare + width);
    Scope own = *prefix;
    own.mask = mask, own.strides[6] = beam * width, own.strides[7] = width;
    int taken = 0, live = 1, done = spare != NULL;
    while (done > 0 && live) {
        const int64_t length = start + taken + 1;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < length * beam; j++)
                mask[r * width + j] = origin[r * capacity + j / beam] != j % beam;
        own.shape[3] = length * beam;
        done = zoo_decoder(m, tokens, positions ? positions + taken * m->outputs->k : NULL, stored, &own,
                           source, (length - 1) * beam, logits);
        if (done <= 0 || ++taken == count) break;
        tokens += rows;
        zoo_continue(logits, score, shape, 0, banned, bans, end, best, parents, tokens);
        for (int64_t r = 0; r < rows; r++) live &= best[r] > -INFINITY && tokens[r] != end;
        if (!live) break;
        memcpy(score, best, rows * sizeof *best);
        reorder(origin, parents, sentences, beam, capacity, length, spare);
        parents += rows;
    }
    free(spare);
    return done > 0 ? taken : done;
}

/* What the best continuations of a beam lead to, as `choice.py` says. numbers: sentences, width, n, k,
   the end token, the position, and whether finished hypotheses occupy slots. facts: whether any is
   over, all are live, and all continue the row of their own slot; how many sentences are not alive. */
void zoo_choose(const float *x, const float *score, const int64_t *numbers, const int64_t *banned,
                int64_t bans, const int64_t *left, const int64_t *lengths, const float *threshold,
                const float *divisor, float *best, int64_t *rows, int64_t *token, char *over,
                char *alive, int64_t *facts) {
    const int64_t sentences = numbers[0], width = numbers[1], k = numbers[3], end = numbers[4];
    const int64_t position = numbers[5], crowded = numbers[6];
    zoo_continue(x, score, numbers, 0, banned, bans, end, best, rows, token);
    facts[0] = facts[3] = 0;
    facts[1] = 1;
    facts[2] = k == width;
    for (int64_t s = 0; s < sentences; s++, best += k, rows += k, token += k, over += k) {
        for (int64_t i = 0; i < k; i++) {
            if (crowded && i >= left[s]) best[i] = -INFINITY;
            const int live = best[i] > -INFINITY;
            over[i] = live && (token[i] == end || position >= lengths[s]);
            facts[0] |= over[i];
            facts[1] &= live;
            facts[2] &= rows[i] == i;
            rows[i] += s * width;
        }
        alive[s] = best[0] / divisor[s] > threshold[s];
        facts[3] += !alive[s];
    }
}

/* The loss of one label, and log Σ_j e^x_j. */
INLINE void row_loss(int narrow, const char *x, int64_t n, int64_t label, float smoothing,
                     float *log_sum, float *loss) {
    const int64_t size = narrow ? 2 : 4, whole = n - n % WIDTH;
    Vector most = load_end(narrow, x + whole * size, n - whole), sums = {}, all = {};
    for (int64_t l = 0; l < n - whole; l++) all[l] = most[l];
    for (int64_t j = 0; j < whole; j += WIDTH) {
        const Vector z = load_as(narrow, x + j * size);
        most = maximum(z, most);
        all += z;
    }
    float top = -INFINITY;
    for (int l = 0; l < WIDTH; l++) top = most[l] > top ? most[l] : top;
    for (int64_t j = 0; j < n; j += WIDTH)
        sums += exponential(load_end(narrow, x + j * size, n - j) - top);
    *log_sum = top + logf(sum(sums));
    *loss = *log_sum - (1 - smoothing) * load_end(narrow, x + label * size, 1)[0];
    if (smoothing) *loss -= smoothing / n * sum(all);
}

/* The gradient of a row's loss, times a factor. */
INLINE void row_gradient(int narrow, const char *x, int64_t n, int64_t label, float smoothing,
                         float log_sum, float factor, char *out) {
    const int64_t size = narrow ? 2 : 4;
    const float spread = smoothing / n;
    for (int64_t j = 0; j < n; j += WIDTH) {
        const Vector p = exponential(load_end(narrow, x + j * size, n - j) - log_sum);
        store_end(narrow, out + j * size, n - j, (p - spread) * factor);
    }
    const Vector p = exponential(load_end(narrow, x + label * size, 1) - log_sum);
    store_end(narrow, out + label * size, 1, (p - spread - (1 - smoothing)) * factor);
}

/* Cross-entropy with label smoothing for logits x (rows, n), bfloat16 if `narrow`, and labels (rows),
   of which `padding` has none. With `out`, which is like x, its gradient times `factor`, from the
   log_sums of an earlier call; without, the losses and log_sums (rows). */
void zoo_cross_entropy(const char *x, int64_t rows, int64_t n, int64_t narrow, const int64_t *labels,
                       int64_t padding, float smoothing, float *log_sums, float *losses,
                       float factor, char *out) {
    const int64_t bytes = n * (narrow ? 2 : 4);
    for (int64_t i = 0; i < rows; i++, x += bytes) {
        const int64_t label = labels[i];
        if (label == padding) {
            if (out)
                memset(out + i * bytes, 0, bytes);
            else
                losses[i] = 0;
        } else if (out && narrow)
            row_gradient(1, x, n, label, smoothing, log_sums[i], factor, out + i * bytes);
        else if (out)
            row_gradient(0, x, n, label, smoothing, log_sums[i], factor, out + i * bytes);
        else if (narrow)
            row_loss(1, x, n, label, smoothing, log_sums + i, losses + i);
        else
            row_loss(0, x, n, label, smoothing, log_sums + i, losses + i);
    }
}
