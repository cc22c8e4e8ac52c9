/* What the processor itself can do: operations that stay in registers or tiles, and a pass over memory.

   fma_loop KIND SECONDS [MIB]   KIND: float32, bfloat16, amx_bfloat16 or stream; prints FLOP/s or byte/s of all usable
   cores together, one pinned thread each. Exit status 3: this processor (or this build) has no such instructions.
   A multiplication and an addition count as two operations. stream is a = b - a over arrays of MIB MiB in all. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__AVX512BF16__) || defined(__AMX_BF16__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define CHAINS 12 /* two units, five cycles each; leaves registers for the factors in AVX2 */
#define TURNS 4096

typedef float Vector __attribute__((vector_size(WIDTH)));
typedef struct {
    int core;
    double seconds, rate;
    size_t numbers;
    float *a, *b;
} Work;

static pthread_barrier_t start;
static volatile float factor = 0.999999f, term = 1e-6f, sink;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

#if defined(__AVX512F__)
#define KEPT "+v" /* in a register, and changed for all that the compiler knows: no turn can be left out */
#elif defined(__x86_64__)
#define KEPT "+x"
#else
#define KEPT "+w"
#endif
#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define KEEP(c) __asm__ volatile("" : KEPT(chain##c));

static double float32_turns(void) {
    Vector f = factor - (Vector){0}, t = term - (Vector){0};
#define BEGIN(c) Vector chain##c = f + (float)c;
    EACH(BEGIN)
    for (int turn = 0; turn < TURNS; turn++) {
#define ADD(c) chain##c = chain##c * f + t;
        EACH(ADD)
        EACH(KEEP)
    }
#define END(c) sink += chain##c[0];
    EACH(END)
    return 2.0 * CHAINS * TURNS * (WIDTH / 4);
}

#ifdef __AVX512BF16__
static double bfloat16_turns(void) {
    __m512bh f = (__m512bh)_mm512_set1_epi16(0x3f80), t = (__m512bh)_mm512_set1_epi16(0x3380);
#define BEGIN_DOT(c) __m512 chain##c = _mm512_set1_ps((float)c);
    EACH(BEGIN_DOT)
    for (int turn = 0; turn < TURNS; turn++) {
#define ADD_DOT(c) chain##c = _mm512_dpbf16_ps(chain##c, f, t);
        EACH(ADD_DOT)
        EACH(KEEP)
    }
#define END_DOT(c) sink += _mm512_cvtss_f32(chain##c);
    EACH(END_DOT)
    return 2.0 * CHAINS * TURNS * 32;
}
#endif

#if defined(__AMX_BF16__) && defined(__linux__)
static double amx_turns(void) { /* six sums of 16 x 16, each turn adding a product of 16 x 32 by 32 x 16 */
    static _Thread_local int ready;
    static _Thread_local uint16_t tile[16 * 32] __attribute__((aligned(64)));
    if (!ready) {
        struct { uint8_t palette, row, reserved[14]; uint16_t columns[16]; uint8_t rows[16]; } shape;
        memset(&shape, 0, sizeof shape);
        shape.palette = 1;
        for (int t = 0; t < 8; t++) shape.columns[t] = 64, shape.rows[t] = 16;
        _tile_loadconfig(&shape);
        for (int i = 0; i < 16 * 32; i++) tile[i] = 0x3380;
        ready = 1;
    }
    _tile_loadd(6, tile, 64);
    _tile_loadd(7, tile, 64);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3); _tile_zero(4); _tile_zero(5);
    for (int turn = 0; turn < TURNS; turn++) {
        _tile_dpbf16ps(0, 6, 7); _tile_dpbf16ps(1, 6, 7); _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7); _tile_dpbf16ps(4, 6, 7); _tile_dpbf16ps(5, 6, 7);
    }
    static _Thread_local float sum[16 * 16] __attribute__((aligned(64)));
    _tile_stored(0, sum, 64); sink += sum[0];
    return 6.0 * TURNS * 2 * 16 * 16 * 32;
}
#endif

static double stream_turn(Work *work) {
    float *restrict a = work->a, *restrict b = work->b;
    for (size_t i = 0; i < work->numbers; i++) a[i] = b[i] - a[i];
    __asm__ volatile("" ::"r"(a) : "memory");
    return 3.0 * sizeof(float) * work->numbers;
}

static double (*turns)(void);

static void *run(void *given) {
    Work *work = given;
#ifdef __linux__
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(work->core, &own);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
#endif
    if (work->numbers) {
        size_t bytes = work->numbers * sizeof(float);
        work->a = aligned_alloc(1 << 21, bytes), work->b = aligned_alloc(1 << 21, bytes);
        if (!work->a || !work->b) exit(4);
#ifdef __linux__
        madvise(work->a, bytes, MADV_HUGEPAGE), madvise(work->b, bytes, MADV_HUGEPAGE);
#endif
        for (size_t i = 0; i < work->numbers; i++) work->a[i] = 1, work->b[i] = 3;
    }
    if (turns) turns(); else stream_turn(work); /* the clock comes up */
    pthread_barrier_wait(&start);
    double done = 0, began = now(), took = 0;
    while (took < work->seconds) done += turns ? turns() : stream_turn(work), took = now() - began;
    work->rate = done / took;
    return NULL;
}

static int choose(const char *kind) {
    if (!strcmp(kind, "stream")) return 1;
    if (!strcmp(kind, "float32")) return turns = float32_turns, 1;
#ifdef __AVX512BF16__
    if (!strcmp(kind, "bfloat16")) return turns = bfloat16_turns, 1;
#endif
#if defined(__AMX_BF16__) && defined(__linux__)
    if (!strcmp(kind, "amx_bfloat16")) /* the kernel is asked for the tiles' state: ARCH_REQ_XCOMP_PERM, XTILEDATA */
        return syscall(SYS_arch_prctl, 0x1023, 18) == 0 && (turns = amx_turns, 1);
#endif
    return 0;
}

int main(int count, char **given) {
    if (count < 3) return fprintf(stderr, "fma_loop KIND SECONDS [MIB]\n"), 2;
    if (!choose(given[1])) return 3;
    int cores[1024], threads = 0;
#ifdef __linux__
    cpu_set_t usable;
    sched_getaffinity(0, sizeof usable, &usable);
    for (int c = 0; c < CPU_SETSIZE && threads < 1024; c++)
        if (CPU_ISSET(c, &usable)) cores[threads++] = c;
#else
    threads = 1, cores[0] = 0;
#endif
    size_t each = turns ? 0 : (size_t)((count > 3 ? atof(given[3]) : 512) * 262144) / threads / 2 & ~(size_t)((1 << 19) - 1);
    if (!turns && !each) return fprintf(stderr, "MIB: too few\n"), 2;
    pthread_t thread[1024];
    static Work work[1024];
    pthread_barrier_init(&start, NULL, threads);
    for (int t = 0; t < threads; t++) {
        work[t] = (Work){cores[t], atof(given[2]), 0, each, NULL, NULL};
        if (pthread_create(&thread[t], NULL, run, &work[t])) return 4;
    }
    double rate = 0;
    for (int t = 0; t < threads; t++) pthread_join(thread[t], NULL), rate += work[t].rate;
    return printf("%.9g\n", rate) < 0;
}
