#include "model.hpp"
#include <array>
#include <cstdio>

int main() {
  std::array<float, 4> w{1, 2, 3, 4};
  const std::array<float, 4> g{1, 1, 1, 1};
  const std::array<std::uint8_t, 3> p{1, 0, 1};
  const std::array<std::complex<float>, 2> z{{{1, 1}, {1, 2}}};
  std::array<std::uint8_t, 3> q{};
  std::array<std::complex<float>, 2> y{};
  model::run run;
  run(w, g, p, z, std::span<const std::int32_t, 0>(), q, y, std::span<std::int32_t, 0>());
  std::printf("%g %g %g %g | %d %d %d | (%g,%g) (%g,%g)\n", w[0], w[1], w[2], w[3], q[0], q[1], q[2], y[0].real(),
              y[0].imag(), y[1].real(), y[1].imag());
  std::puts(model::error(HLO_SHORT).what());
  try {
    model::checked_weights(std::span<const std::byte>());
    std::puts("wrong"); // there are no weights, and nothing to check
  } catch (const model::error &) {
    std::puts("right");
  }
}
