// SPDX-License-Identifier: Apache-2.0
// What a step computes on one thread of a CPU: each function is one pass over memory, for which a plain
// tensor library makes five to ten. kernels.py says what shapes are expected; nothing is checked here.
//
// Numbers are read as float32 or bfloat16, computed in float32, and rounded once. Not-a-number goes through: a sequence
// that is no longer finite must be noticed.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

// One body for each instruction set, chosen when the library is loaded: it may have been built on another machine.
#if defined(__x86_64__)
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif
#define ALWAYS_INLINE __attribute__((always_inline)) // into each of these bodies
#define INLINED inline ALWAYS_INLINE

namespace {

using Index = std::int64_t;

constexpr int LARGEST_HEAD = 256; // kernels.py

struct BFloat16 {
  std::uint16_t bits;
};

INLINED float load(float value) { return value; }

INLINED float load(BFloat16 value) { return __builtin_bit_cast(float, std::uint32_t{value.bits} << 16); }

INLINED void store(float value, float *to) { *to = value; }

INLINED void store(float value, BFloat16 *to) { // to the nearest, ties to even
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  to->bits = static_cast<std::uint16_t>(is_nan ? 0x7fc0u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// exp(x) for x <= 0, within 2.5e-7 of it: 2^n times a polynomial of the rest; 0 is never reached.
INLINED float exp_of(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float n = __builtin_rintf(x * 1.44269504f);
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; // ln 2 in two parts
  const float p = 1.0f + r * (1.0f + r * (1.0f / 2 + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r / 720)))));
  return p * __builtin_bit_cast(float, (static_cast<std::int32_t>(n) + 127) << 23);
}

template <typename T> INLINED void rms_norm(const T *x, const T *weight, T *out, Index rows, Index size, float eps) {
  for (Index row = 0; row < rows; ++row, x += size, out += size) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (Index i = 0; i < size; ++i) {
      const float value = load(x[i]);
      sum += value * value;
    }
    const float scale = 1 / std::sqrt(sum / static_cast<float>(size) + eps);
#pragma omp simd
    for (Index i = 0; i < size; ++i) store(load(x[i]) * scale * load(weight[i]), out + i);
  }
}

template <typename T> INLINED void gated_silu(const T *gate_up, T *out, Index rows, Index size) {
  for (Index row = 0; row < rows; ++row, gate_up += 2 * size, out += size) {
#pragma omp simd
    for (Index i = 0; i < size; ++i) {
      const float gate = load(gate_up[i]), shrunk = exp_of(-std::fabs(gate));
      store(gate * (gate < 0 ? shrunk : 1.0f) / (1 + shrunk) * load(gate_up[size + i]), out + i);
    }
  }
}

void add(const float *what, float *to, Index size) {
  for (Index i = 0; i < size; ++i) to[i] += what[i];
}

template <typename T>
INLINED void rotate(T *heads, const T *cos, const T *sin, Index rows, Index stride, Index num_heads, Index head_dim) {
  const Index half = head_dim / 2;
  for (Index row = 0; row < rows; ++row, heads += stride, cos += head_dim, sin += head_dim) {
    for (Index head = 0; head < num_heads; ++head) {
      T *low = heads + head * head_dim, *high = low + half;
#pragma omp simd
      for (Index i = 0; i < half; ++i) {
        const float a = load(low[i]), b = load(high[i]);
        store(a * load(cos[i]) + b * load(sin[i]), low + i);
        store(b * load(cos[half + i]) + a * load(sin[half + i]), high + i);
      }
    }
  }
}

template <typename T>
INLINED void write(const T *keys, const T *values, const Index *slots, T *key_pool, T *value_pool, Index rows,
                   Index key_stride, Index value_stride, Index size) {
  for (Index row = 0; row < rows; ++row) {
    std::memcpy(key_pool + slots[row] * size, keys + row * key_stride, static_cast<std::size_t>(size) * sizeof(T));
    std::memcpy(value_pool + slots[row] * size, values + row * value_stride, static_cast<std::size_t>(size) * sizeof(T));
  }
}

// The largest number of each row, where it is, and the logarithm of the sum of exponentials.
template <typename T>
INLINED void rank(const T *x, float *peaks, Index *places, float *totals, Index rows, Index size) {
  for (Index row = 0; row < rows; ++row, x += size) {
    float peak = -std::numeric_limits<float>::infinity(), total = 0;
#pragma omp simd reduction(max : peak)
    for (Index i = 0; i < size; ++i) peak = load(x[i]) > peak ? load(x[i]) : peak;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < size; ++i) total += exp_of(load(x[i]) - peak);
    places[row] = std::find_if(x, x + size, [&](T value) { return load(value) == peak; }) - x;
    totals[row] = peak + std::log(total);
    peaks[row] = std::isnan(total) ? total : peak;
  }
}

// Vectors of BYTES bytes.
template <int BYTES> struct Vector {
  static constexpr int LANES = BYTES / 4;
  typedef float Floats __attribute__((vector_size(BYTES)));
  typedef std::uint32_t Words __attribute__((vector_size(BYTES)));
};

constexpr int PANEL = 64; // columns of a weight that lie together, row by row: kernels.py
constexpr int WIDTH = 4;  // vectors of a row of sums, which stay in registers
constexpr Index NEAR = 256; // rows that stay in a nearer cache while all panels meet them
constexpr int PAIRS = 16; // columns whose numbers lie next to those of as many behind them, two in a word
constexpr int LINE = 32;  // numbers of a weight that memory brings at a time
constexpr int AHEAD = 16 * PANEL; // so far ahead they are asked for, across panels; what lies behind is not read

// ROWS rows of x times a panel of a weight. A word holds the number of a column, above it that of the one PAIRS behind.
template <typename V, int ROWS>
INLINED void multiply_panel(const float *x, const BFloat16 *panel, float *out, Index in_size, Index out_size) {
  for (int column = 0; column < PANEL; column += WIDTH * V::LANES) {
    typename V::Floats sums[ROWS][WIDTH] = {}, weights[WIDTH];
    for (Index i = 0; i < in_size; ++i) {
      for (int line = 0; line < PANEL; line += LINE) __builtin_prefetch(panel + i * PANEL + line + AHEAD);
#pragma GCC unroll 2
      for (int k = 0; k < WIDTH; k += 2) {
        typename V::Words pairs;
        std::memcpy(&pairs, panel + i * PANEL + column + k * V::LANES, sizeof pairs);
        weights[k] = reinterpret_cast<typename V::Floats>(pairs << 16);
        weights[k + 1] = reinterpret_cast<typename V::Floats>(pairs & 0xffff0000u);
      }
#pragma GCC unroll 8
      for (int row = 0; row < ROWS; ++row) {
#pragma GCC unroll 4
        for (int k = 0; k < WIDTH; ++k) sums[row][k] += x[row * in_size + i] * weights[k];
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < ROWS; ++row) {
#pragma GCC unroll 4
      for (int k = 0; k < WIDTH; ++k) {
        const int pair = k / 2 * V::LANES, where = pair / PAIRS * 2 * PAIRS + pair % PAIRS + k % 2 * PAIRS;
        std::memcpy(out + row * out_size + column + where, &sums[row][k], sizeof sums[row][k]);
      }
    }
  }
}

// x times a weight in panels (out_size / PANEL, in_size, PANEL), at most MOST rows at a time. A panel stays in the nearest
// cache while all rows meet it.
template <typename V, int MOST>
INLINED void multiply(const float *x, const BFloat16 *weight, float *out, Index rows, Index in_size, Index out_size) {
  for (Index column = 0; column < out_size; column += PANEL, weight += PANEL * in_size) {
    for (Index row = 0, count; row < rows; row += count) {
      const float *from = x + row * in_size;
      float *to = out + row * out_size + column;
      count = std::min(rows - row, Index{MOST});
      if (rows - row - count == 1 || rows - row - count == 2) count = std::min(count, Index{4}); // no row alone
      if (count == 1) multiply_panel<V, 1>(from, weight, to, in_size, out_size);
      if (count == 2) multiply_panel<V, 2>(from, weight, to, in_size, out_size);
      if (count == 3) multiply_panel<V, 3>(from, weight, to, in_size, out_size);
      if (MOST > 3 && count == 4) multiply_panel<V, 4>(from, weight, to, in_size, out_size);
      if (MOST > 3 && count == 5) multiply_panel<V, 5>(from, weight, to, in_size, out_size);
      if (MOST > 3 && count == 6) multiply_panel<V, 6>(from, weight, to, in_size, out_size);
    }
  }
}

// Calls visit(where, token) for each token of a sequence: where its head, size numbers wide, lies in a pool.
// Meanwhile the next block is asked for, and behind the last one the block at next.
template <typename T, typename Visit>
INLINED void for_each_token(const T *pool, const Index *blocks, Index start, Index end, Index block_size, Index stride,
                            Index size, const T *next, Visit visit) {
  constexpr Index LINE = 64 / sizeof(T);
  for (Index token = start, block = start / block_size; token < end; ++block) {
    const Index upto = std::min(end, (block + 1) * block_size);
    const T *where = pool + (blocks[block] * block_size + token - block * block_size) * stride;
    const T *ahead = upto < end ? pool + blocks[block + 1] * block_size * stride : next;
    for (; token < upto; ++token, where += stride, ahead += stride) {
      for (Index i = 0; i < size; i += LINE) __builtin_prefetch(ahead + i);
      visit(where, token - start);
    }
  }
}

// The query heads of one sequence that share one key-value head, at most LARGEST_HEAD wide. SIZE is their width where it
// is known when this is compiled, else 0. scores has room for each token and query head.
template <int SIZE, typename T>
INLINED void attend_head(const T *queries, const T *keys, const T *values, const Index *blocks, Index start, Index end,
                         Index block_size, Index stride, Index group_size, Index head_dim, float scale, float *scores,
                         T *out) {
  const Index size = SIZE ? SIZE : head_dim, length = end - start;
  const T *next = values + blocks[start / block_size] * block_size * stride;
  const auto each = [&](const T *pool, auto visit) ALWAYS_INLINE {
    for_each_token(pool, blocks, start, end, block_size, stride, size, next, visit);
  };
  each(keys, [&](const T *key, Index token) ALWAYS_INLINE {
    for (Index query = 0; query < group_size; ++query) {
      float score = 0;
#pragma omp simd reduction(+ : score)
      for (Index i = 0; i < size; ++i) score += load(queries[query * size + i]) * load(key[i]);
      scores[query * length + token] = score * scale;
    }
  });
  for (Index query = 0; query < group_size; ++query, scores += length, out += size) {
    float peak = -std::numeric_limits<float>::infinity(), total = 0;
#pragma omp simd reduction(max : peak)
    for (Index i = 0; i < length; ++i) peak = scores[i] > peak ? scores[i] : peak;
#pragma omp simd reduction(+ : total)
    for (Index i = 0; i < length; ++i) {
      scores[i] = exp_of(scores[i] - peak);
      total += scores[i];
    }
    float attended[SIZE ? SIZE : LARGEST_HEAD] = {};
    each(values, [&](const T *value, Index token) ALWAYS_INLINE {
      const float weight = scores[token];
#pragma omp simd
      for (Index i = 0; i < size; ++i) attended[i] += weight * load(value[i]);
    });
#pragma omp simd
    for (Index i = 0; i < size; ++i) store(attended[i] / total, out + i);
  }
}

// Row i attends to the tokens starts[i] .. ends[i] of the sequence whose block table begins at tables[offsets[i]].
template <int SIZE, typename T>
INLINED void attend(const T *queries, const T *keys, const T *values, T *out, const Index *tables, const Index *offsets,
                    const Index *starts, const Index *ends, Index rows, Index query_stride, Index num_kv_heads,
                    Index group_size, Index head_dim, Index block_size, float scale) {
  Index longest = 0;
  for (Index row = 0; row < rows; ++row) longest = std::max(longest, ends[row] - starts[row]);
  std::vector<float> scores(static_cast<std::size_t>(group_size * longest));
  const Index size = SIZE ? SIZE : head_dim;
  for (Index row = 0; row < rows; ++row, queries += query_stride) {
    for (Index head = 0; head < num_kv_heads; ++head, out += group_size * size) {
      attend_head<SIZE>(queries + head * group_size * size, keys + head * size, values + head * size, tables + offsets[row],
                        starts[row], ends[row], block_size, num_kv_heads * size, group_size, size, scale, scores.data(),
                        out);
    }
  }
}

} // namespace

#define EXPORT extern "C" EACH_PROCESSOR void

#define EXPORT_FOR(NAME, T)                                                                                            \
  EXPORT rms_norm_##NAME(const T *x, const T *weight, T *out, Index rows, Index size, float eps) {                     \
    rms_norm(x, weight, out, rows, size, eps);                                                                         \
  }                                                                                                                    \
  EXPORT gated_silu_##NAME(const T *gate_up, T *out, Index rows, Index size) { gated_silu(gate_up, out, rows, size); } \
  EXPORT rank_##NAME(const T *x, float *peaks, Index *places, float *totals, Index rows, Index size) {                 \
    rank(x, peaks, places, totals, rows, size);                                                                        \
  }                                                                                                                    \
  EXPORT rotate_##NAME(T *heads, const T *cos, const T *sin, Index rows, Index stride, Index num_heads,                \
                       Index head_dim) {                                                                               \
    rotate(heads, cos, sin, rows, stride, num_heads, head_dim);                                                        \
  }                                                                                                                    \
  EXPORT write_##NAME(const T *keys, const T *values, const Index *slots, T *key_pool, T *value_pool, Index rows,      \
                      Index key_stride, Index value_stride, Index size) {                                              \
    write(keys, values, slots, key_pool, value_pool, rows, key_stride, value_stride, size);                            \
  }                                                                                                                    \
  EXPORT attend_##NAME(const T *queries, const T *keys, const T *values, T *out, const Index *tables,                  \
                       const Index *offsets, const Index *starts, const Index *ends, Index rows, Index query_stride,   \
                       Index num_kv_heads, Index group_size, Index head_dim, Index block_size, float scale) {          \
    const auto with = [&](auto size) ALWAYS_INLINE {                                                                   \
      attend<decltype(size)::value>(queries, keys, values, out, tables, offsets, starts, ends, rows, query_stride,     \
                                    num_kv_heads, group_size, head_dim, block_size, scale);                            \
    };                                                                                                                 \
    if (head_dim == 64) with(std::integral_constant<int, 64>());                                                       \
    else if (head_dim == 128) with(std::integral_constant<int, 128>());                                                \
    else with(std::integral_constant<int, 0>());                                                                       \
  }

EXPORT_FOR(float32, float)
EXPORT_FOR(bfloat16, BFloat16)

// Of this file, for kernels.py: by other arguments than those it was compiled for, a kernel would write anywhere.
extern "C" const char *source_sha256() { return SOURCE_SHA256; }

// How many bytes a register holds for which a product has a body of its own; 0 on other processors.
extern "C" int register_bytes() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("x86-64-v4") ? 64 : __builtin_cpu_supports("x86-64-v3") ? 32 : 0;
#else
  return 0;
#endif
}

EXPORT multiply_float32(const float *x, const BFloat16 *weight, float *out, Index rows, Index in_size, Index out_size,
                        Index has_large) {
  for (Index row = 0; row < rows; row += NEAR) {
    const float *from = x + row * in_size;
    float *to = out + row * out_size;
    if (has_large) multiply<Vector<64>, 6>(from, weight, to, std::min(rows - row, NEAR), in_size, out_size);
    else multiply<Vector<32>, 3>(from, weight, to, std::min(rows - row, NEAR), in_size, out_size);
  }
}

// A decoder layer: what stays the same from step to step. In the order of whole_layer.py.
struct Layer {
  const float *attention_norm, *mlp_norm;
  const BFloat16 *qkv, *output, *gate_up, *down;
  Index hidden_size, num_heads, num_kv_heads, head_dim, intermediate_size;
  float eps, scale;
};

// A whole layer for rows of x (rows, hidden_size), in place. room is for all that lies between.
extern "C" void layer_float32(const Layer *weights, float *x, const float *cos, const float *sin, float *room,
                              const Index *slots, float *keys, float *values, const Index *tables, const Index *offsets,
                              const Index *starts, const Index *ends, Index rows, Index block_size, Index has_large) {
  const Layer &layer = *weights;
  const Index size = layer.hidden_size, head_dim = layer.head_dim, group_size = layer.num_heads / layer.num_kv_heads;
  const Index query_size = layer.num_heads * head_dim, kv_size = layer.num_kv_heads * head_dim;
  const Index heads_size = query_size + 2 * kv_size, inner_size = layer.intermediate_size;
  float *result = room, *heads = result + rows * size, *attended = heads + rows * heads_size;
  float *gate_up = attended + rows * query_size, *inner = gate_up + rows * 2 * inner_size;
  rms_norm_float32(x, layer.attention_norm, result, rows, size, layer.eps);
  multiply_float32(result, layer.qkv, heads, rows, size, heads_size, has_large);
  rotate_float32(heads, cos, sin, rows, heads_size, layer.num_heads + layer.num_kv_heads, head_dim);
  write_float32(heads + query_size, heads + query_size + kv_size, slots, keys, values, rows, heads_size, heads_size,
                kv_size);
  attend_float32(heads, keys, values, attended, tables, offsets, starts, ends, rows, heads_size, layer.num_kv_heads,
                 group_size, head_dim, block_size, layer.scale);
  multiply_float32(attended, layer.output, result, rows, query_size, size, has_large);
  add(result, x, rows * size);
  rms_norm_float32(x, layer.mlp_norm, result, rows, size, layer.eps);
  multiply_float32(result, layer.gate_up, gate_up, rows, size, 2 * inner_size, has_large);
  gated_silu_float32(gate_up, inner, rows, inner_size);
  multiply_float32(inner, layer.down, result, rows, inner_size, size, has_large);
  add(result, x, rows * size);
}
